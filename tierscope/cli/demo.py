"""`tierscope demo`: a whole deployment on loopback, without a GPU, from traffic to advice."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.options import Json

if TYPE_CHECKING:
    from tierscope.domain.trace import Trace


def demo(
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Replay this trace instead of generated traffic.")
    ] = None,
    duration_seconds: Annotated[
        float, typer.Option("--duration", min=1, help="Seconds the traffic takes; its clock runs faster.")
    ] = 60.0,
    headless: Annotated[
        bool, typer.Option("--headless", help="Exit when the traffic is over instead of staying up.")
    ] = False,
    as_json: Json = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the generated traffic.")] = 1,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, max=64, help="Engines to run; as many as it takes.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave the trace's bad lines out and count them.")
    ] = False,
    otlp_endpoint: Annotated[
        str | None, typer.Option("--otlp-endpoint", help="Send spans there (OTLP/HTTP).")
    ] = None,
) -> None:
    """Run testbed, exporter, collector and API on loopback; end with tokens per tier and advice."""
    from tierscope.cli.demo_report import as_document, print_report
    from tierscope.cli.demo_run import DemoOptions, DemoRun
    from tierscope.cli.output import print_json, stderr
    from tierscope.cli.processes import Stopped, StopRequest

    stop = StopRequest()
    options = DemoOptions(
        trace=None if trace is None else _read(trace, skip_bad=skip_bad),
        duration_seconds=duration_seconds,
        seed=seed,
        replicas=replicas,
        otlp_endpoint=otlp_endpoint,
    )
    with (
        contextlib.suppress(Stopped),  # interrupted before everything was up
        tempfile.TemporaryDirectory(prefix="tierscope-demo-") as folder,
        DemoRun(options, Path(folder), stop) as run,
    ):
        for name, url in run.urls.items():
            stderr.print(f"{name:<8} {url}", markup=False)
        result = run.until_advice(stop)
        if result is None:  # interrupted before there was anything to show
            return
        if as_json:
            print_json(as_document(result))
        else:
            print_report(result)
        if not headless:
            stderr.print("up until Ctrl-C", style="dim")
            stop.wait()


def _read(path: Path, *, skip_bad: bool) -> Trace:
    from tierscope.cli.output import stderr
    from tierscope.traces.open import read_trace

    trace = read_trace(path, skip_bad=skip_bad)
    if trace.skipped_lines:
        stderr.print(f"{trace.skipped_lines} bad lines left out", style="yellow")
    return trace
