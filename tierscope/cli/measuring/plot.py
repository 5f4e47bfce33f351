"""A measurement as one self-contained page: TTFT by prompt length, the published sweep dashed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from tierscope.cli.measuring.plan import Stage
from tierscope.cli.measuring.table import lines

if TYPE_CHECKING:
    from tierscope.cli.measuring.summary import Document

WIDTH, HEIGHT, MARGIN = 760, 420, 56
COLOURS = {Stage.COLD: "#b3402f", Stage.L0: "#2f6db3", Stage.L1: "#3a8f4d", Stage.L2: "#8a5bb0"}
TICKS = 5
STYLE = "body{font:15px system-ui;max-width:50rem;margin:2rem auto;padding:0 1rem}text{font:12px system-ui}"


class Point(NamedTuple):
    """A median with its interval, in tokens and seconds."""

    tokens: float
    value: float
    low: float
    high: float


def page(document: Document) -> str:
    """Return the page; it refers to nothing outside of itself."""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Tierscope: TTFT by tier</title>',
            f"<style>{STYLE}</style>",
            "<h1>Time to first token, by where the prompt came from</h1>",
            drawing(document),
            "<p>Medians with their 95 % intervals. Dashed: the published sweep on two A10G.</p>",
            *(f"<p>{escape(line)}</p>" for line in lines(document)),
            "</html>\n",
        )
    )


def drawing(document: Document) -> str:
    """Return the chart as SVG."""
    measured = {stage: list(_points(document, stage)) for stage in Stage}
    published = {stage: list(_published(document, stage)) for stage in (Stage.COLD, Stage.L2)}
    everything = [point for points in (*measured.values(), *published.values()) for point in points]
    frame = _Frame(max(p.tokens for p in everything), max(max(p.value, p.high) for p in everything))
    parts = list(frame.axes())
    parts += [frame.line(points, COLOURS[stage], dashed=True) for stage, points in published.items()]
    for number, (stage, points) in enumerate(measured.items()):
        colour = COLOURS[stage]
        parts.append(frame.line(points, colour, dashed=False))
        parts += [frame.bar(point, colour) for point in points]
        place = f'x="{MARGIN + 12}" y="{MARGIN + 18 * number}"'
        parts.append(f'<text {place} fill="{colour}">{stage.value}</text>')
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="TTFT by prompt length"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(parts)}</svg>'


class _Frame(NamedTuple):
    """From tokens and seconds to places on the drawing."""

    most_tokens: float
    most_seconds: float

    def at(self, tokens: float, seconds: float) -> tuple[float, float]:
        x = MARGIN + tokens / self.most_tokens * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - seconds / self.most_seconds * (HEIGHT - 2 * MARGIN)
        return round(x, 1), round(y, 1)

    def axes(self) -> Iterator[str]:
        (left, bottom), (right, top) = self.at(0, 0), self.at(self.most_tokens, self.most_seconds)
        yield f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#666"/>'
        for step in range(TICKS + 1):
            tokens, seconds = self.most_tokens * step / TICKS, self.most_seconds * step / TICKS
            x, y = self.at(tokens, seconds)
            yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tokens:,.0f}</text>'
            yield f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{seconds * 1000:,.0f} ms</text>'
        yield f'<text x="{right}" y="{bottom + 36}" text-anchor="end">prompt tokens</text>'

    def line(self, points: Sequence[Point], colour: str, *, dashed: bool) -> str:
        places = " ".join(f"{x},{y}" for x, y in (self.at(p.tokens, p.value) for p in points))
        style = 'stroke-dasharray="4 5" opacity="0.6"' if dashed else 'stroke-width="2"'
        return f'<polyline points="{places}" fill="none" stroke="{colour}" {style}/>'

    def bar(self, point: Point, colour: str) -> str:
        (x, low), (_, high) = self.at(point.tokens, point.low), self.at(point.tokens, point.high)
        return f'<path d="M{x} {low}V{high}" stroke="{colour}" stroke-width="4" opacity="0.35"/>'


def _points(document: Document, stage: Stage) -> Iterator[Point]:
    for row in document["lengths"]:
        estimate = row[stage.value]["ttft_seconds"]
        if estimate is not None:
            yield Point(row["prompt_tokens"], estimate["value"], estimate["low"], estimate["high"])


def _published(document: Document, stage: Stage) -> Iterator[Point]:
    for row in document["published"]["sweep"]:
        seconds = row[f"{stage.value}_seconds"]
        yield Point(row["prompt_tokens"], seconds, seconds, seconds)
