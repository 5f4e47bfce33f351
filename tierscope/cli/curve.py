"""`tierscope curve`: the exact hit ratio of an LRU tier at every size, from a trace."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierscope.cli.options import Json
from tierscope.cli.spread import spread
from tierscope.domain.units import GIB

if TYPE_CHECKING:
    from tierscope.analytics.curve import HitRatioCurve
    from tierscope.domain.trace import Int64Array, Trace

SIZES = 20
"""How many capacities are shown where none are asked for."""


class Unit(StrEnum):
    """What capacities are counted in."""

    BLOCKS = "blocks"
    GIB = "gib"


class Weight(StrEnum):
    """What a hit is worth."""

    BLOCKS = "blocks"
    TOKENS = "tokens"
    BYTES = "bytes"
    """The same ratio as tokens where every token has the same bytes, as within one model."""


def curve(
    trace: Annotated[Path, typer.Argument(help="Mooncake JSONL (also .gz) or Parquet.")],
    capacities: Annotated[
        str | None, typer.Option("--capacities", help="Sizes to print, e.g. 1000,2000; else 20 of them.")
    ] = None,
    unit: Annotated[Unit, typer.Option("--unit", help="Unit of the capacities.")] = Unit.BLOCKS,
    bytes_per_token: Annotated[
        int | None, typer.Option("--bytes-per-token", min=1, help="KV bytes a token; needed for gib.")
    ] = None,
    weight: Annotated[Weight, typer.Option("--weight", help="What a hit is worth.")] = Weight.BLOCKS,
    warm: Annotated[
        float, typer.Option("--warm", min=0, max=1, help="Share of the requests that only warm the tier.")
    ] = 0.0,
    spread_hours: Annotated[
        float | None,
        typer.Option("--spread-sessions", min=0, help="Start the trace's sessions within so many hours."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of --spread-sessions.")] = 1,
    block_tokens: Annotated[
        int | None, typer.Option("--block-tokens", min=1, help="Tokens a block, where the file does not say.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.")] = False,
    as_json: Json = False,
) -> None:
    """Print the exact hit ratio of an LRU tier at every size, computed in one pass over a trace."""
    from tierscope.cli.output import print_json
    from tierscope.traces.open import read_trace

    if unit is Unit.GIB and bytes_per_token is None:
        raise typer.BadParameter("sizes in GiB need the model's --bytes-per-token")
    requests = spread(read_trace(trace, block_tokens=block_tokens, skip_bad=skip_bad), spread_hours, seed)
    measured = _measure(requests, by_tokens=weight is not Weight.BLOCKS, warm_ratio=warm)
    block_gib = requests.block_tokens * (bytes_per_token or 0) / GIB
    sizes = _asked(capacities, block_gib, unit) if capacities else _log_spaced(measured.curve.unique_blocks)
    document = _document(requests, measured, sizes, block_gib if unit is Unit.GIB else 1)
    document = {"unit": unit.value, "weight": weight.value, **document}
    if as_json:
        print_json(document)
    else:
        _print_table(document)


class Measured(NamedTuple):
    """A curve and how long the pass over the trace took."""

    curve: HitRatioCurve
    accesses: int
    seconds: float


def _measure(trace: Trace, *, by_tokens: bool, warm_ratio: float) -> Measured:
    import numpy as np

    from tierscope.analytics.chains import chains_of
    from tierscope.analytics.curve import hit_ratio_curve

    chains = chains_of(trace)
    before_last = np.maximum(np.diff(trace.offsets) - 1, 0) * trace.block_tokens
    last_tokens = np.clip(trace.input_tokens - before_last, 0, trace.block_tokens)
    started = time.perf_counter()
    curve = hit_ratio_curve(
        chains,
        block_weight=trace.block_tokens if by_tokens else 1,
        last_block_weights=last_tokens if by_tokens else None,
        first_counted=int(warm_ratio * chains.requests),
    )
    return Measured(curve, chains.accesses, time.perf_counter() - started)


def _document(trace: Trace, measured: Measured, sizes_blocks: Int64Array, scale: float) -> dict[str, object]:
    curve = measured.curve
    return {
        "block_tokens": trace.block_tokens,
        "requests": trace.requests,
        "accesses": curve.accesses,
        "unique_blocks": curve.unique_blocks,
        "infinite_hit_ratio": round(curve.infinite_hit_ratio, 6),
        "capacities": [int(blocks) if scale == 1 else round(blocks * scale, 3) for blocks in sizes_blocks],
        "hit_ratio": [round(float(ratio), 6) for ratio in curve.at(sizes_blocks)],
        "seconds": measured.seconds,
        "accesses_per_second": round(measured.accesses / measured.seconds),
        "skipped_lines": trace.skipped_lines,
    }


def _asked(capacities: str, block_gib: float, unit: Unit) -> Int64Array:
    """Read '1000,2000' in blocks or GiB; a part of a block holds nothing."""
    import numpy as np

    try:
        sizes = [float(part) for part in capacities.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--capacities {capacities}: numbers with commas between them") from error
    if not all(0 <= size < math.inf for size in sizes):
        raise typer.BadParameter(f"--capacities {capacities}: sizes from 0 up")
    return np.array([size / block_gib if unit is Unit.GIB else size for size in sizes]).astype(np.int64)


def _log_spaced(unique_blocks: int) -> Int64Array:
    import numpy as np

    return np.unique(
        np.geomspace(max(1, unique_blocks / 1000), max(1, unique_blocks), SIZES).astype(np.int64)
    )


def _print_table(document: dict[str, Any]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table(
        title=f"{document['requests']:,} requests, {document['accesses']:,} block accesses, "
        f"{document['unique_blocks']:,} distinct blocks of {document['block_tokens']} tokens",
        title_justify="left",
        caption=f"{document['accesses_per_second'] / 1e6:,.0f} M accesses/s; "
        f"{document['skipped_lines']} bad lines left out",
        caption_justify="left",
    )
    table.add_column("GiB" if document["unit"] == Unit.GIB else "blocks", justify="right")
    table.add_column(f"hit ratio ({document['weight']})", justify="right")
    table.add_column("")
    for capacity, ratio in zip(document["capacities"], document["hit_ratio"], strict=True):
        table.add_row(f"{capacity:,}", f"{ratio:.4f}", "█" * round(40 * ratio))
    table.add_row(
        "endless", f"{document['infinite_hit_ratio']:.4f}", "█" * round(40 * document["infinite_hit_ratio"])
    )
    stdout.print(table)
