"""`tierscope measure`: what each tier is worth on your own cluster, beside the published figures."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.measuring.plan import LENGTHS, Emptying
from tierscope.cli.options import Json

if TYPE_CHECKING:
    from exporters.fetch import Fetcher
    from tierscope.cli.measuring.plan import Plan
    from tierscope.cli.measuring.replica import Replica
    from tierscope.cli.measuring.summary import Document, Units

MOST_VOCABULARIES = "1000:30000"
URL_HELP = "A vLLM replica; give two: the first one writes, the second one reads."
EXPORTER_HELP = "Page of an exporter that reads the replicas: it tells the tiers. Give as many as it takes."
CACHE_HELP = "Each replica's LMCache server, in the same order: tells the tiers without an exporter."
SETTLE_HELP = "Seconds after which what was written is taken to be in L2."


def measure(
    url: Annotated[list[str], typer.Option("--url", help=URL_HELP)],
    exporter: Annotated[list[str] | None, typer.Option("--exporter", help=EXPORTER_HELP)] = None,
    cache_url: Annotated[list[str] | None, typer.Option("--cache-url", help=CACHE_HELP)] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model; else the first one served.")
    ] = None,
    lengths: Annotated[
        str, typer.Option("--lengths", help="Prompt lengths in tokens, e.g. 534,1080.")
    ] = ",".join(map(str, LENGTHS)),
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Prompts of each length.")] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, other prompts.")] = 1,
    token_range: Annotated[
        str, typer.Option("--token-range", help="Token ids that prompts are made of, first:beyond.")
    ] = MOST_VOCABULARIES,
    empty_l0: Annotated[
        Emptying, typer.Option("--empty-l0", help="How the first replica's L0 is emptied for L1.")
    ] = Emptying.FILLER,
    l0_tokens: Annotated[
        int | None, typer.Option("--l0-tokens", min=1, help="Size of L0; else as the engine's page says.")
    ] = None,
    clear_l1: Annotated[
        bool, typer.Option("--clear-l1", help="Clear the second replica's L1 first, by its --cache-url.")
    ] = False,
    chunk_tokens: Annotated[int, typer.Option("--chunk-tokens", min=1, help="LMCache's chunk size.")] = 256,
    bytes_per_token: Annotated[
        float | None, typer.Option("--bytes-per-token", min=1, help="KV bytes a token of the model.")
    ] = None,
    settle: Annotated[float, typer.Option("--settle", min=0, help=SETTLE_HELP)] = 2.0,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds one answer may take.")] = 120.0,
    html: Annotated[Path | None, typer.Option("--html", help="Write the plot as one page.")] = None,
    as_json: Json = False,
) -> None:
    """Compare cold prompts with L0, L1, and L2 written by the other replica, on your own deployment."""
    from tierscope.cli.measuring.plan import Plan
    from tierscope.cli.measuring.plot import page
    from tierscope.cli.measuring.replica import Replica
    from tierscope.cli.measuring.summary import Units
    from tierscope.cli.measuring.table import print_document
    from tierscope.cli.output import print_json, stdout

    caches = [one.rstrip("/") for one in cache_url or []]
    _check_addresses(url, caches, clear_l1=clear_l1)
    low, high = _pair(token_range)
    plan = Plan(
        lengths=_lengths(lengths),
        repeats=repeats,
        seed=seed,
        low_token=low,
        high_token=high,
        emptying=empty_l0,
        l0_tokens=l0_tokens,
        clear_l1=clear_l1,
        settle_seconds=settle,
    )
    with ExitStack() as opened:
        writer, reader = (
            Replica(one, model=model, monotonic=time.monotonic, timeout_seconds=timeout) for one in url
        )
        opened.callback(writer.close)
        opened.callback(reader.close)
        units = Units(chunk_tokens, bytes_per_token)
        document = _measure(plan, (writer, reader), exporter or [], caches, units)
    if html is not None:
        html.write_text(page(document), encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        print_document(document, stdout)


def _measure(
    plan: Plan, replicas: tuple[Replica, Replica], exporters: list[str], caches: list[str], units: Units
) -> Document:
    from exporters.fetch import Fetcher
    from tierscope.cli.measuring.run import Runner
    from tierscope.cli.measuring.summary import summarise
    from tierscope.cli.measuring.witness import EngineWitness, ExporterWitness, Hearing, Witness, testifies
    from tierscope.cli.output import stderr

    fetcher = Fetcher(10.0)
    exporting = ExporterWitness(exporters, fetcher) if exporters else None
    witness: Witness = exporting or EngineWitness([one.url for one in replicas], caches, fetcher)
    hearing = Hearing(witness) if testifies(witness) else None
    runner = Runner(
        plan=plan,
        replicas=replicas,
        hearing=hearing,
        l0_tokens=plan.l0_tokens or _l0_tokens(fetcher, replicas[0].url),
        tell=lambda what: stderr.print(f"measuring: {what}", markup=False),
        loads=None if exporting is None else exporting.loads,
        clear_l1=(lambda: _clear(caches[1])) if plan.clear_l1 else None,
    )
    found = runner.run()
    fetcher.close()
    return summarise(plan, found, units, disturbed=0 if hearing is None else hearing.disturbed)


def _l0_tokens(fetcher: Fetcher, url: str) -> int | None:
    """The size of a replica's L0 by its own page; None where it does not say."""
    from exporters.exposition import parse_exposition
    from exporters.vllm.parse import parse_engine_page
    from tierscope.domain.errors import SourceUnreadable

    where = f"{url}/metrics"
    try:
        page = parse_engine_page(parse_exposition(fetcher.get(where), where=where), where=where)
    except SourceUnreadable:
        return None
    return sum((one.blocks or 0) * (one.block_tokens or 0) for one in page.configs) or None


def _clear(cache_url: str) -> None:
    """Clear an LMCache server's L1, as an operator would."""
    import httpx

    from tierscope.domain.errors import SourceUnreadable

    try:
        httpx.post(f"{cache_url}/cache/clear", timeout=30.0, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise SourceUnreadable(
            f"an L1 cannot be cleared: {error}",
            where=f"{cache_url}/cache/clear",
            fix="give the address of LMCache's HTTP port, or leave --clear-l1 out and take another --seed",
        ) from error


def _check_addresses(urls: list[str], caches: list[str], *, clear_l1: bool) -> None:
    if len(urls) != 2:
        raise typer.BadParameter(f"--url: two replicas are compared, not {len(urls)}")
    if caches and len(caches) != 2:
        raise typer.BadParameter("--cache-url: give one for each --url, in the same order")
    if clear_l1 and not caches:
        raise typer.BadParameter("--clear-l1 needs the LMCache servers: give --cache-url twice")


def _lengths(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise typer.BadParameter(f"--lengths {text}: numbers of tokens, e.g. 534,1080")
    return found


def _pair(text: str) -> tuple[int, int]:
    first, _, beyond = text.partition(":")
    if not (first.isdecimal() and beyond.isdecimal() and int(first) < int(beyond)):
        raise typer.BadParameter(f"--token-range {text}: two token ids, the smaller one first")
    return int(first), int(beyond)
