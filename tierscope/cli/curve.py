"""`tierscope curve`: the exact hit ratio of an LRU tier at every size, from a trace."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierscope.cli.options import BlockTokens, Json, SkipBad, SpreadHours, SpreadSeed, TraceFile
from tierscope.cli.spread import spread
from tierscope.domain.units import GIB, format_seconds

if TYPE_CHECKING:
    from tierscope.analytics.curve import HitRatioCurve
    from tierscope.domain.trace import Trace

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
    trace: TraceFile,
    capacities: Annotated[
        str | None, typer.Option("--capacities", help="Sizes to print, e.g. 1000,2000; else 20 of them.")
    ] = None,
    unit: Annotated[Unit, typer.Option("--unit", help="Unit of the capacities.")] = Unit.BLOCKS,
    bytes_per_token: Annotated[
        int | None, typer.Option("--bytes-per-token", min=1, help="KV bytes a token; needed for gib.")
    ] = None,
    weight: Annotated[Weight, typer.Option("--weight", help="What a hit is worth.")] = Weight.BLOCKS,
    warm: Annotated[
        float, typer.Option("--warm", help="Share of the requests, 0 to 1, that only warm the tier.")
    ] = 0.0,
    spread_hours: SpreadHours = None,
    seed: SpreadSeed = 1,
    block_tokens: BlockTokens = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Print the exact hit ratio of an LRU tier at every size, computed in one pass over a trace."""
    from tierscope.cli.output import print_json, stderr
    from tierscope.traces.open import read_trace

    if unit is Unit.GIB and bytes_per_token is None:
        raise typer.BadParameter("sizes in GiB need the model's --bytes-per-token")
    if not 0 <= warm < 1:
        raise typer.BadParameter(f"--warm {warm}: a share from 0 up to, but not, 1")
    asked = _asked(capacities) if capacities is not None else None
    with stderr.status(f"reading {trace.name}"):
        requests = spread(read_trace(trace, block_tokens=block_tokens, skip_bad=skip_bad), spread_hours, seed)
        measured = _measure(requests, by_tokens=weight is not Weight.BLOCKS, warm_ratio=warm)
    per_block = requests.block_tokens * (bytes_per_token or 0) / GIB if unit is Unit.GIB else 1
    sizes = _log_spaced(measured.curve.unique_blocks, per_block) if asked is None else asked
    document = {
        "unit": unit.value,
        "weight": weight.value,
        "block_tokens": requests.block_tokens,
        "requests": requests.requests,
        "warm_requests": measured.warm_requests,
        "accesses": requests.accesses,
        "unique_blocks": measured.curve.unique_blocks,
        "infinite_hit_ratio": measured.curve.infinite_hit_ratio,
        "capacities": sizes,
        "hit_ratio": _hit_ratios(measured.curve, sizes, per_block),
        "seconds": measured.seconds,
        "accesses_per_second": round(requests.accesses / measured.seconds),
        "skipped_lines": requests.skipped_lines,
    }
    if as_json:
        print_json(document)
    else:
        _print_table(document)


class Measured(NamedTuple):
    """A curve, how many requests only warmed the tier, and how long the pass over the trace took."""

    curve: HitRatioCurve
    warm_requests: int
    seconds: float


def _measure(trace: Trace, *, by_tokens: bool, warm_ratio: float) -> Measured:
    """Compute the curve, timing the pass alone: kernels are compiled or loaded before it."""
    import numpy as np

    from tierscope.analytics.chains import Chains, chains_of
    from tierscope.analytics.curve import hit_ratio_curve

    chains = chains_of(trace)
    warm_requests = int(warm_ratio * chains.requests)
    before_last = np.maximum(np.diff(trace.offsets) - 1, 0) * trace.block_tokens
    last_tokens = np.clip(trace.input_tokens - before_last, 0, trace.block_tokens)
    hit_ratio_curve(Chains(np.zeros(1, np.int64), np.zeros(0, np.int32), 0))
    started = time.perf_counter()
    curve = hit_ratio_curve(
        chains,
        block_weight=trace.block_tokens if by_tokens else 1,
        last_block_weights=last_tokens if by_tokens else None,
        first_counted=warm_requests,
    )
    seconds = time.perf_counter() - started
    if by_tokens:
        # Where a trace has whole blocks alone, tokens after the last one never hit, but are asked for.
        curve = replace(curve, total_weight=int(trace.input_tokens[warm_requests:].sum()))
    return Measured(curve, warm_requests, seconds)


def _asked(capacities: str) -> list[float]:
    """Read '1000,2000'; whole numbers stay whole."""
    try:
        sizes = [float(part) for part in capacities.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--capacities {capacities}: numbers with commas between them") from error
    if not all(0 <= size < math.inf for size in sizes):
        raise typer.BadParameter(f"--capacities {capacities}: sizes from 0 up")
    return [int(size) if size.is_integer() else size for size in sizes]


def _log_spaced(unique_blocks: int, per_block: float) -> list[float]:
    """About SIZES capacities, from a thousandth of the distinct blocks to all of them."""
    import numpy as np

    sizes = np.geomspace(max(1, unique_blocks / 1000), max(1, unique_blocks), SIZES)
    return [blocks * per_block for blocks in np.unique(sizes.round().astype(np.int64)).tolist()]


def _hit_ratios(curve: HitRatioCurve, sizes: list[float], per_block: float) -> list[float]:
    """Hit ratio at each size; a part of a block holds nothing, and more than all blocks is all of them."""
    import numpy as np

    blocks = np.minimum(np.array(sizes) / per_block, curve.unique_blocks)
    return [float(ratio) for ratio in curve.at(blocks.astype(np.int64))]


def _print_table(document: dict[str, Any]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    stdout.print(
        f"{document['requests']:,} requests, {document['accesses']:,} block accesses, "
        f"{document['unique_blocks']:,} distinct blocks of {document['block_tokens']} tokens"
    )
    if document["warm_requests"]:
        stdout.print(f"the first {document['warm_requests']:,} requests warm the tier and are not counted")
    table = Table()
    table.add_column("GiB" if document["unit"] == Unit.GIB else "blocks", justify="right")
    table.add_column(f"hit ratio ({document['weight']})", justify="right")
    table.add_column("")
    for capacity, ratio in zip(document["capacities"], document["hit_ratio"], strict=True):
        size = f"{capacity:,}" if isinstance(capacity, int) else f"{capacity:,.2f}"
        table.add_row(size, f"{ratio:.4f}", _bar(ratio))
    table.add_row("endless", f"{document['infinite_hit_ratio']:.4f}", _bar(document["infinite_hit_ratio"]))
    stdout.print(table)
    stdout.print(
        f"one pass in {format_seconds(document['seconds'])}, "
        f"{document['accesses_per_second'] / 1e6:,.0f} M accesses/s; "
        f"bad lines left out: {document['skipped_lines']}"
    )


def _bar(ratio: float) -> str:
    return "█" * round(40 * ratio)
