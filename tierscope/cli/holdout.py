"""`tierscope holdout`: the error of our own advice on a trace, the second half predicted from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierscope.cli.options import BlockTokens, Json, SkipBad, SpreadHours, SpreadSeed, TraceFile
from tierscope.cli.spread import spread

if TYPE_CHECKING:
    from tierscope.analytics.holdout import Forecast, Holdout

SIZES = 40
SMALLEST_SHARE = 0.002
"""The smallest size, as a share of the distinct blocks; the largest is all of them."""


def holdout(
    trace: TraceFile,
    spread_hours: SpreadHours = None,
    seed: SpreadSeed = 1,
    block_tokens: BlockTokens = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Predict the hit ratio of a trace's second half from its first at 40 sizes; say how far off it is."""
    import numpy as np

    from tierscope.analytics.chains import chains_of
    from tierscope.analytics.holdout import hold_out
    from tierscope.cli.output import print_json, stderr
    from tierscope.traces.open import read_trace

    with stderr.status(f"reading {trace.name}"):
        requests = spread(read_trace(trace, block_tokens=block_tokens, skip_bad=skip_bad), spread_hours, seed)
        chains = chains_of(requests)
        sizes = np.geomspace(max(SMALLEST_SHARE * chains.n_ids, 1), max(chains.n_ids, 1), SIZES)
        found = hold_out(
            chains, np.unique(sizes.astype(np.int64)), np.random.default_rng(seed), requests.session
        )
    document = _document(found)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _document(found: Holdout) -> dict[str, Any]:
    load = found.load
    return {
        **_sums(found),
        "drift": {
            "found": found.drift.found,
            "shift": found.drift.shift.ratio,
            "p_value": found.drift.shift.p_value,
        },
        "at_load": None
        if load is None
        else {
            "sessions_seen": load.sessions_seen,
            "sessions_coming": load.sessions_coming,
            **_sums(load.forecast),
            "predicted": _points(load.forecast),
        },
        "capacities": found.capacities_blocks.tolist(),
        "predicted": _points(found),
        "observed": found.observed.tolist(),
    }


def _sums(forecast: Forecast) -> dict[str, float]:
    errors = forecast.errors
    return {"mae": float(errors.mean()), "max_error": float(errors.max()), "coverage": forecast.coverage}


def _points(forecast: Forecast) -> list[dict[str, float]]:
    columns = (forecast.predicted, *forecast.interval)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [{"value": value, "low": low, "high": high} for value, low, high in rows]


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table("blocks", "predicted", "95 % interval", "observed")
    for size, predicted, observed in zip(
        document["capacities"], document["predicted"], document["observed"], strict=True
    ):
        interval = f"{predicted['low']:.4f} to {predicted['high']:.4f}"
        table.add_row(f"{size:,}", f"{predicted['value']:.4f}", interval, f"{observed:.4f}")
    stdout.print(table)
    stdout.print(
        f"off by {document['mae']:.4f} on average and {document['max_error']:.4f} at most; "
        f"intervals hold {document['coverage']:.0%} of the sizes"
    )
    drift = document["drift"]
    if drift["found"]:
        stdout.print(
            f"the first half drifts by {drift['shift']:+.3f} (p = {drift['p_value']:.3f}): "
            "its past is no guide to its future"
        )
    if (load := document["at_load"]) is not None:
        stdout.print(
            f"{load['sessions_seen']:.1f} sessions took turns in the first half, and "
            f"{load['sessions_coming']:.1f} in the second; for these it is off by {load['mae']:.4f} "
            f"on average and {load['max_error']:.4f} at most, "
            f"and intervals hold {load['coverage']:.0%} of the sizes"
        )
