"""The charts, as what Plotly is told to draw; colours are names of the page's own, `--l0` and the like."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import JsonValue

from tierscope.advice.curves import Curve, Point
from tierscope.advice.explain import Explanation, TtftByTier
from tierscope.analytics.misses import Cause
from tierscope.analytics.prefixes import SharedPrefix
from tierscope.domain.tiers import Origin, Tier
from tierscope.domain.units import GIB, KIB, MIB, TIB
from tierscope.report.words import CAUSES, ORIGINS, number, ratio, seconds, size

Figure = dict[str, JsonValue]

CAUSE_COLOURS = {
    Cause.COMPULSORY: "--quiet",
    Cause.CAPACITY_L0: "--l0",
    Cause.CAPACITY_L1: "--l1",
    Cause.CAPACITY_L2: "--l2",
}
"""The rest are `--computed`."""
BARE: Figure = {"margin": {"l": 8, "r": 8, "t": 16, "b": 8}}
"""Layout of what has no axes."""
ALL = "all"


def flow(explanation: Explanation) -> Figure:
    """Prompt tokens to the tier that served them, and what was computed to its causes."""
    origins = [origin for origin in Origin if explanation.tokens[origin]]
    causes = explanation.misses.causes or {}
    named = [cause for cause in Cause if causes.get(cause)]
    labels = ["prompt tokens", *(ORIGINS[one] for one in origins), *(CAUSES[one][0] for one in named)]
    colours = ["--ink-quiet", *(f"--{one.value}" for one in origins), *map(_cause_colour, named)]
    source = (
        [0] * len(origins) + [1 + origins.index(Origin.COMPUTED)] * len(named)
        if named
        else [0] * len(origins)
    )
    values = [*(explanation.tokens[one] for one in origins), *(causes[one] for one in named)]
    shares = [ratio(value / explanation.prompt_tokens) for value in values]
    node: Figure = {
        "label": [*labels],
        "color": [*colours],
        "pad": 18,
        "thickness": 16,
        "line": {"width": 0},
        "hovertemplate": "%{label}: %{value:,} tokens<extra></extra>",
    }
    link: Figure = {
        "source": [*source],
        "target": [*range(1, len(labels))],
        "value": [*values],
        "color": [f"{colour}/0.35" for colour in colours[1:]],
        "customdata": [*shares],
        "hovertemplate": "%{target.label}: %{value:,} tokens, %{customdata}<extra></extra>",
    }
    return _figure([{"type": "sankey", "arrangement": "fixed", "node": node, "link": link}], BARE, height=340)


def misses(causes: Mapping[Cause, int]) -> Figure:
    """Computed tokens by cause, the largest on top."""
    rows = sorted(((tokens, cause) for cause, tokens in causes.items() if tokens), key=lambda row: row[0])
    trace: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": [CAUSES[cause][0] for _, cause in rows],
        "x": [tokens for tokens, _ in rows],
        "marker": {"color": [_cause_colour(cause) for _, cause in rows]},
        "hovertemplate": "%{y}: %{x:,} tokens<extra></extra>",
    }
    axes: Figure = {
        "xaxis": {"title": {"text": "computed tokens"}, "nticks": 5},
        "yaxis": {"automargin": True},
    }
    return _figure([trace], axes, height=80 + 34 * max(len(rows), 2))


def curve(tier: Tier, found: Curve) -> Figure:
    """Hit ratio by size of a holder, with today's point and the advised one."""
    line: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "hit ratio by size",
        "x": [*found.capacity_bytes],
        "y": [*found.hit_ratio],
        "text": [size(one) for one in found.capacity_bytes],
        "line": {"color": f"--{tier.value}", "width": 3},
        "hovertemplate": "%{text}: %{y:.1%}<extra></extra>",
    }
    points, traces = [], [line]
    if found.current is not None:
        place = "bottom center" if found.recommended else "top center"
        traces.append(_point("today", found.current, place, {"symbol": "circle", "color": "--ink"}))
        points.append(found.current.capacity_bytes)
    if found.recommended is not None:
        mark: Figure = {"symbol": "diamond", "color": "--good"}
        traces.append(_point("advised", found.recommended, "top center", mark))
        points.append(found.recommended.capacity_bytes)
    axes: Figure = {
        "xaxis": _size_axis(tier, [*found.capacity_bytes, *points]),
        "yaxis": {"range": [0, 1.15], "tickformat": ".0%", "nticks": 6},
        "showlegend": False,
    }
    return _figure([*traces], axes, height=300)


def ttft(found: TtftByTier) -> Figure:
    """Median and slowest tenth by serving tier, beside what the model expects."""
    names = [ORIGINS[one.served_from] for one in found.tiers]
    traces: list[JsonValue] = [
        _bars("observed median", names, [one.p50 for one in found.tiers], "--l0"),
        _bars("model's median", names, [one.expected_p50 for one in found.tiers], "--quiet"),
        _bars("observed, 9 of 10 are faster", names, [one.p90 for one in found.tiers], "--l1"),
    ]
    if found.absent_because is not None:
        del traces[1]
    slowest = max(max(one.p90, one.expected_p50 or 0.0) for one in found.tiers)
    axes: Figure = {
        "barmode": "group",
        "xaxis": {"title": {"text": "seconds to first token"}, "range": [0, 1.2 * slowest], "nticks": 5},
        "yaxis": {"automargin": True, "autorange": "reversed"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    }
    return _figure(traces, axes, height=130 + 70 * len(names))


def prefixes(found: tuple[SharedPrefix, ...]) -> Figure:
    """Shared prefixes within those they continue; area is what sharing can save, colour what was computed.

    A prefix has the area of its tokens beyond the one it continues, so that nothing is counted twice.
    """
    above = {one.block_hash: one.prefix_tokens for one in found}
    own = [(one.prefix_tokens - above.get(one.parent_hash or "", 0)) * (one.requests - 1) for one in found]
    labels = [f"{number(one.prefix_tokens)} tokens × {number(one.requests)}" for one in found]
    shares = [one.computed_requests / one.requests for one in found]
    uses = sum(one.requests for one in found)
    trace: Figure = {
        "type": "treemap",
        "ids": [ALL, *(one.block_hash for one in found)],
        "labels": ["prefixes that repeat", *labels],
        "parents": ["", *(one.parent_hash or ALL for one in found)],
        "values": [0, *own],
        "branchvalues": "remainder",
        "marker": {
            "colors": [sum(one.computed_requests for one in found) / uses, *shares],
            "line": {"color": "--paper", "width": 1},
            "colorscale": [[0, "--cool"], [1, "--hot"]],
            "cmin": 0,
            "cmax": 1,
            "showscale": True,
            "colorbar": {
                "title": {"text": "computed again", "side": "right"},
                "tickformat": ".0%",
                "thickness": 12,
                "nticks": 3,
            },
        },
        "text": ["", *(f"{ratio(share)} computed again" for share in shares)],
        "hovertemplate": "%{id}<br>%{label}<br>%{text}<br>%{value:,} tokens could be saved<extra></extra>",
        "tiling": {"pad": 2},
        "pathbar": {"visible": False},
    }
    return _figure([trace], BARE | {"uniformtext": {"minsize": 10, "mode": "hide"}}, height=380)


def _point(label: str, point: Point, text_position: str, mark: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": label,
        "x": [point.capacity_bytes],
        "y": [point.hit_ratio],
        "text": [label],
        "textposition": text_position,
        "cliponaxis": False,
        "marker": {**mark, "size": 13},
        "hovertemplate": f"{label}: {size(point.capacity_bytes)}, %{{y:.1%}}<extra></extra>",
    }


def _size_axis(tier: Tier, sizes_bytes: list[float]) -> Figure:
    """Sizes by their powers, with room at either end for the words at a point."""
    least, most = (max(end(sizes_bytes), 1.0) for end in (min, max))
    room = max(0.1 * math.log10(most / least), 0.1)
    ticks = _size_ticks(least, most)
    return {
        "type": "log",
        "range": [math.log10(least) - room, math.log10(most) + room],
        "title": {"text": f"{tier.value.upper()} size of one holder"},
        "tickvals": [*ticks],
        "ticktext": [_short_size(tick) for tick in ticks],
    }


def _bars(label: str, names: list[str], values: list[float] | list[float | None], colour: str) -> JsonValue:
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "y": [*names],
        "x": [*values],
        "text": ["" if value is None else seconds(value) for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colour},
        "hovertemplate": f"%{{y}}, {label}: %{{x:.3f}} s<extra></extra>",
    }


def _figure(traces: list[JsonValue], layout: Figure, height: int) -> Figure:
    return {"data": traces, "layout": {**layout, "height": height}}


def _cause_colour(cause: Cause) -> str:
    return CAUSE_COLOURS.get(cause, "--computed")


def _size_ticks(least: float, most: float) -> list[float]:
    """Powers of two, at most six, that lie between two sizes."""
    first, last = (max(int(end), 1).bit_length() for end in (least, most))
    step = max(1, -(-(last - first) // 5))
    return [float(2**power) for power in range(first, last, step)] or [float(2 ** (first - 1))]


def _short_size(size_bytes: float) -> str:
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes:g} B"
