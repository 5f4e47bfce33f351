"""`tierscope recommend`: what to change, from a store's file, a running API, or a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.asking import get, one_of, parsed
from tierscope.cli.options import Json
from tierscope.domain.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from tierscope.domain.deployment import Deployment

Document = dict[str, "JsonValue"]

PATH = "/v1/recommendations/"

DEFAULT_WINDOW_HOURS = 24.0
DEFAULT_SEED = 1

IN_THE_API = (
    "an API gives the advice that its collector stored; leave it out, or advise anew with --store or --trace"
)
ANEW = "it is how much stored history --store with --deployment advises from; give both, or leave it out"
OF_A_TRACE = "it says how to read a --trace; leave it out, or give a trace"
OF_SESSIONS = "it is the seed of --spread-sessions; give both, or leave it out"
IN_THE_DEPLOYMENT = "a trace is of the endpoint that the file of --deployment names; name it there"


def recommend(
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File of a store that no collector has open, or a lake's name."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Base address of a running API.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Mooncake JSONL (also .gz) or Parquet; needs --deployment.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="NS/NAME", help="Which endpoint, where there are more."),
    ] = None,
    deployment: Annotated[
        Path | None,
        typer.Option("--deployment", help="Deployment (YAML): advise on it anew instead of reading advice."),
    ] = None,
    window_hours: Annotated[
        float | None,
        typer.Option("--window", min=0.0, help="Hours of stored history to advise from; 24 if left out."),
    ] = None,
    spread_hours: Annotated[
        float | None,
        typer.Option("--spread-sessions", min=0, help="Start the trace's sessions within so many hours."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of --spread-sessions; 1 if left out.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave the trace's bad lines out and count them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print what to change on an endpoint: sizes, what they are expected to bring, and how to apply them."""
    if sum(source is not None for source in (store, url, trace)) != 1:
        raise typer.BadParameter("give one of --store, --url and --trace")
    _refuse_idle(
        ("--deployment", deployment is not None and url is not None, IN_THE_API),
        ("--window", window_hours is not None and (store is None or deployment is None), ANEW),
        ("--spread-sessions", spread_hours is not None and trace is None, OF_A_TRACE),
        ("--skip-bad", skip_bad and trace is None, OF_A_TRACE),
        ("--seed", seed is not None and spread_hours is None, OF_SESSIONS),
        ("--endpoint", endpoint is not None and trace is not None, IN_THE_DEPLOYMENT),
    )
    wanted = _deployment(deployment)
    if url is not None:
        document = _from_api(url, endpoint)
    elif store is not None:
        hours = DEFAULT_WINDOW_HOURS if window_hours is None else window_hours
        document = _from_store(store, endpoint, wanted, hours * 3600)
    else:
        assert trace is not None
        drawn = DEFAULT_SEED if seed is None else seed
        document = _from_trace(trace, wanted, spread_hours, drawn, skip_bad=skip_bad)
    _print(document, as_json=as_json)


def _refuse_idle(*options: tuple[str, bool, str]) -> None:
    """Refuse the first option that is given where nothing would come of it, with what to do instead."""
    for name, idle, instead in options:
        if idle:
            raise typer.BadParameter(f"{name} does nothing here: {instead}")


def _deployment(path: Path | None) -> Deployment | None:
    from tierscope.cli.settings_file import load_deployment

    return None if path is None else load_deployment(path)


def _from_store(
    path: Path, endpoint: str | None, deployment: Deployment | None, window_seconds: float
) -> Document:
    """Advise anew on a configured deployment, or read what the collector advised last."""
    from tierscope.advice.routing.advisor import Advisor
    from tierscope.domain.window import TimeSpan
    from tierscope.storage.duckdb_reader import DuckDbReader

    reader = DuckDbReader.open(path)
    try:
        known = [f"{namespace}/{name}" for namespace, name in reader.endpoints()]
        if deployment is not None:
            name = f"{deployment.namespace}/{deployment.endpoint}"
            namespace, endpoint_name = one_of(known, endpoint or name, where=str(path))
            history = reader.history(namespace, endpoint_name)
            end = history.end_unix_seconds if history else time.time()
            evidence = reader.evidence(namespace, endpoint_name, TimeSpan(end - window_seconds, end))
            return Advisor()(evidence, deployment, now_unix_seconds=time.time()).to_json()
        namespace, endpoint_name = one_of(known, endpoint, where=str(path))
        body = reader.latest_recommendation(namespace, endpoint_name)
    finally:
        reader.close()
    if body is None:
        raise BadInput(
            f"the store has no recommendation for {namespace}/{endpoint_name}",
            where=str(path),
            fix="name its configuration with --deployment to advise from the stored history",
        )
    return parsed(body, where=str(path))


def _from_trace(
    path: Path, deployment: Deployment | None, spread_hours: float | None, seed: int, *, skip_bad: bool
) -> Document:
    """Advise on the deployment as if it had served the trace."""
    from tierscope.advice.replay import replayed
    from tierscope.advice.routing.advisor import Advisor
    from tierscope.cli.spread import spread
    from tierscope.traces.open import read_trace

    if deployment is None:
        raise typer.BadParameter("--trace needs the sizes of today: name a file with --deployment")
    evidence, assumed = replayed(spread(read_trace(path, skip_bad=skip_bad), spread_hours, seed), deployment)
    return Advisor()(evidence, assumed, now_unix_seconds=time.time()).to_json()


def _from_api(url: str, endpoint: str | None) -> Document:
    base = url.rstrip("/")
    if endpoint is None:
        known = [str(one["href"]).removeprefix(PATH) for one in _listed(base)]
        endpoint = "/".join(one_of(known, None, where=base))
    return get(f"{base}{PATH}{endpoint}")


def _listed(base: str) -> list[Document]:
    found = get(f"{base}{PATH.rstrip('/')}").get("recommendations")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _print(document: Mapping[str, JsonValue], *, as_json: bool) -> None:
    from tierscope.cli.output import print_json, stdout

    if as_json:
        print_json(document)
        return
    from tierscope.advice.document import parse_recommendation
    from tierscope.cli.advice_summary import summary

    stdout.print(summary(parse_recommendation(document)))
