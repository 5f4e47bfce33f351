"""`tierscope report`: an endpoint's page as one file, from a store or a running API."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tierscope.domain.errors import BadInput


def report(
    html: Annotated[Path, typer.Option("--html", help="File to write.")],
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File of a store that no collector has open, or a lake's name."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Base address of a running API.")] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="NS/NAME", help="Which endpoint, where there are more."),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.01, max=24.0, help="Span that is shown, up to the last request.")
    ] = 1.0,
) -> None:
    """Write one page about an endpoint: advice, findings, token flow, curves, causes of misses, TTFT."""
    if (store is None) == (url is None):
        raise typer.BadParameter("give one of --store and --url")
    if url is not None:
        text = _from_api(url, endpoint, hours)
    else:
        assert store is not None
        text = _from_store(store, endpoint, hours)
    try:
        html.write_text(text, "utf-8")
    except OSError as error:
        raise BadInput(
            f"the report cannot be written: {error.strerror}", where=str(html), fix="choose another file"
        ) from error


def _from_api(url: str, endpoint: str | None, hours: float) -> str:
    """The API's own page: both are made by the same code."""
    from urllib.parse import urlencode

    from tierscope.cli.asking import fetch

    asked = {"hours": f"{hours:g}"} | ({} if endpoint is None else {"endpoint": endpoint})
    return fetch(f"{url.rstrip('/')}/?{urlencode(asked)}").decode()


def _from_store(path: Path, endpoint: str | None, hours: float) -> str:
    from api.report_page import material_of
    from tierscope.advice.foretold import Foretold
    from tierscope.cli.asking import one_of
    from tierscope.domain.window import TimeSpan
    from tierscope.report.page import render
    from tierscope.storage.duckdb_reader import DuckDbReader

    reader = DuckDbReader.open(path)
    try:
        known = [f"{namespace}/{name}" for namespace, name in reader.endpoints()]
        who = one_of(known, endpoint, where=str(path))
        history = reader.history(*who)
        now = time.time()
        # A moment later, so that the last request is in the span.
        end = history.end_unix_seconds + 0.001 if history else now
        return render(material_of(reader, who, TimeSpan(end - hours * 3600, end), now, Foretold())).html
    finally:
        reader.close()
