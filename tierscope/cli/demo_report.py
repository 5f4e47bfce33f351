"""What a demo shows in the end: a document for programs, tables for people."""

from __future__ import annotations

from rich.table import Table

from tierscope.advice.document import parse_recommendation
from tierscope.cli.advice_summary import summary
from tierscope.cli.demo_sums import DemoResult
from tierscope.cli.output import stdout
from tierscope.domain.tiers import Origin
from tierscope.domain.units import format_seconds

SERVED_BY = {
    Origin.L0: "L0  GPU memory",
    Origin.L1: "L1  host memory",
    Origin.L2: "L2  shared pool",
    Origin.EXTERNAL: "external, tier unknown",
    Origin.COMPUTED: "computed again",
}


def as_document(result: DemoResult) -> dict[str, object]:
    """The JSON document of `tierscope demo --json`."""
    sums = result.sums
    return {
        "conservation": {
            "records": sums.sent.as_dict(),
            "scraped": sums.scraped.as_dict(),
            "stored": sums.stored.as_dict(),
            "equal": sums.equal,
        },
        "completeness_ratio": result.completeness_ratio,
        "ttft_p50_seconds": dict(result.ttft_p50_seconds),
        "recommendation": result.recommendation,
        "urls": dict(result.urls),
    }


def print_report(result: DemoResult) -> None:
    """Print what a person wants to know: where tokens came from, what it cost, what to change."""
    stdout.print(_tokens_table(result))
    stdout.print(_verdict(result))
    # The same words as `tierscope recommend` prints.
    stdout.print(summary(parse_recommendation(result.recommendation)))
    for name, url in result.urls.items():
        stdout.print(f"{name:<8} {url}", markup=False)


def _tokens_table(result: DemoResult) -> Table:
    stored = result.sums.stored
    table = Table(
        title=f"{stored.prompt:,} prompt tokens: where their KV values came from", title_justify="left"
    )
    table.add_column("served by")
    for title in ("tokens", "share", "TTFT p50"):
        table.add_column(title, justify="right")
    for origin, label in SERVED_BY.items():
        tokens = stored.of(origin)
        median = result.ttft_p50_seconds.get(origin.value)
        table.add_row(
            label,
            f"{tokens:,}",
            f"{tokens / stored.prompt:.1%}" if stored.prompt else "",
            "" if median is None else format_seconds(median),
        )
    return table


def _verdict(result: DemoResult) -> str:
    sums = result.sums
    if sums.equal:
        return "hook records, /metrics and the event store agree to the token"
    return (
        f"the sums differ: {sums.sent.prompt:,} tokens sent, {sums.scraped.prompt:,} on /metrics, "
        f"{sums.stored.prompt:,} stored; completeness {result.completeness_ratio}"
    )
