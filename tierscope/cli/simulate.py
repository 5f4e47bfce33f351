"""`tierscope simulate`: a trace served by replicas with three tiers behind a router."""

from __future__ import annotations

import time
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierscope.cli.options import BlockTokens, Json, SkipBad, SpreadHours, SpreadSeed, TraceFile
from tierscope.cli.spread import spread
from tierscope.domain.units import GIB, format_seconds

if TYPE_CHECKING:
    from tierscope.domain.trace import Trace
    from tierscope.sim.fleet import TierSizes
    from tierscope.sim.serving import Served

SATURATED = 1.0
"""Speed of the knee below which the recorded load is more than the fleet can take."""


class Policy(StrEnum):
    """A router of `tierscope.sim.routers`."""

    ROUNDROBIN = "roundrobin"
    SESSION = "session"
    PREFIXAWARE = "prefixaware"
    KVAWARE = "kvaware"
    GATEWAY = "gateway"


def simulate(
    trace: TraceFile,
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Engines behind the router.")] = 4,
    l0: Annotated[float, typer.Option("--l0", min=0, help="GiB of KV memory of one engine.")] = 20.0,
    l1: Annotated[float, typer.Option("--l1", min=0, help="GiB of host memory of one replica.")] = 96.0,
    l2: Annotated[float, typer.Option("--l2", min=0, help="GiB of the shared pool.")] = 2048.0,
    policy: Annotated[Policy, typer.Option("--policy", help="Router.")] = Policy.ROUNDROBIN,
    bytes_per_token: Annotated[
        int, typer.Option("--bytes-per-token", min=1, help="KV bytes a token; else those of a 7B model.")
    ] = 57_344,
    chunk_tokens: Annotated[
        int, typer.Option("--chunk-tokens", min=1, help="Tokens a chunk of L1 and L2.")
    ] = 256,
    drop_loads: Annotated[
        bool, typer.Option("--drop-loads", help="L1 drops what it loaded from L2 after one read.")
    ] = False,
    l2_ttl: Annotated[
        float | None, typer.Option("--l2-ttl", min=1, help="Seconds after which L2 deletes a chunk.")
    ] = None,
    routers: Annotated[int, typer.Option("--routers", min=1, help="Replicas of the router.")] = 1,
    most_open: Annotated[
        int | None, typer.Option("--most-open", min=1, help="Requests at once that the proxy bears.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Requests are chats; kvaware cannot read them.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Serve it through every router as well.")
    ] = False,
    knee: Annotated[
        bool, typer.Option("--knee/--no-knee", help="Look for the load at which TTFT doubles.")
    ] = True,
    spread_hours: SpreadHours = None,
    seed: SpreadSeed = 1,
    block_tokens: BlockTokens = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Serve a trace at its own times: tokens by tier, TTFT, the load it bears, and who served how much."""
    from tierscope.cli.output import print_json, stderr
    from tierscope.cli.simulated_misses import miss_tokens
    from tierscope.domain.deployment import RoutingPolicy
    from tierscope.sim.compare import compare_routers
    from tierscope.sim.knee import knee_speed
    from tierscope.sim.serving import NO_LIMIT, Fleet, serve
    from tierscope.traces.open import read_trace

    with stderr.status(f"reading {trace.name}") as status:
        requests = spread(read_trace(trace, block_tokens=block_tokens, skip_bad=skip_bad), spread_hours, seed)
        fleet = Fleet(
            replicas=replicas,
            sizes=_sizes(requests, (l0, l1, l2), bytes_per_token, chunk_tokens),
            policy=RoutingPolicy(policy.value),
            chunk_tokens=chunk_tokens,
            keeps_loads=not drop_loads,
            l2_ttl_seconds=l2_ttl,
            routers=routers,
            most_open=most_open or NO_LIMIT,
            chat=chat,
            seed=seed,
        )
        status.update("serving")
        serve(_first(requests), fleet)  # compiles, or loads what was compiled
        started = time.perf_counter()
        served = serve(requests, fleet)
        seconds = time.perf_counter() - started
        status.update("looking for the knee")
        speed = knee_speed(requests, fleet) if knee else None
    document = _document(requests, served, replicas, speed, seconds)
    document["miss_tokens"] = miss_tokens(requests, served, fleet)
    if compare:
        document["routers"] = [asdict(result) for result in compare_routers(requests, fleet)]
    if as_json:
        print_json(document)
    else:
        _print(document)


def _sizes(
    trace: Trace, gib: tuple[float, float, float], bytes_per_token: int, chunk_tokens: int
) -> TierSizes:
    """Whole blocks and chunks that fit."""
    from tierscope.sim.fleet import TierSizes
    from tierscope.sim.paths import blocks_a_chunk

    block_bytes = trace.block_tokens * bytes_per_token
    chunk_bytes = blocks_a_chunk(chunk_tokens, trace.block_tokens) * block_bytes
    return TierSizes(
        l0_blocks=int(gib[0] * GIB // block_bytes),
        l1_chunks=int(gib[1] * GIB // chunk_bytes),
        l2_chunks=int(gib[2] * GIB // chunk_bytes),
    )


def _first(trace: Trace) -> Trace:
    """The trace's first request alone."""
    import numpy as np

    from tierscope.traces.rows import select

    return select(trace, np.arange(min(trace.requests, 1)))


def _document(
    trace: Trace, served: Served, replicas: int, speed: float | None, seconds: float
) -> dict[str, Any]:
    import numpy as np

    from tierscope.sim.compare import imbalance
    from tierscope.sim.knee import requests_per_second

    split = {tier: int(part.sum()) for tier, part in served.split._asdict().items()}
    prompt = int(trace.input_tokens.sum())
    hits = {tier: split[tier] / max(prompt, 1) for tier in ("l0", "l1", "l2")}
    rate = requests_per_second(trace)
    ttft = served.ttft_seconds[~np.isnan(served.ttft_seconds)]
    tokens = np.bincount(
        served.replica[served.replica >= 0],
        weights=trace.input_tokens[served.replica >= 0],
        minlength=replicas,
    )
    asked = np.bincount(served.replica[served.replica >= 0], minlength=replicas)
    return {
        "requests": trace.requests,
        "refused_requests": served.refused,
        "tokens": {"prompt": prompt, **split},
        "hit_ratio": {**hits, "total": sum(hits.values())},
        "ttft_seconds": {
            "mean": float(ttft.mean()),
            "p50": float(np.quantile(ttft, 0.5)),
            "p90": float(np.quantile(ttft, 0.9)),
        }
        if len(ttft)
        else None,
        "saturated": None if speed is None else speed < SATURATED,
        "requests_per_second": rate,
        "knee_requests_per_second": speed * rate if speed and rate else None,
        "imbalance": imbalance(trace, served, replicas),
        "per_replica": [
            {"requests": int(count), "tokens": int(sum_)} for count, sum_ in zip(asked, tokens, strict=True)
        ],
        "seconds": seconds,
    }


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table("tier", "tokens", "share")
    tokens = document["tokens"]
    for tier in ("l0", "l1", "l2", "computed"):
        table.add_row(tier, f"{tokens[tier]:,}", f"{tokens[tier] / max(tokens['prompt'], 1):.1%}")
    stdout.print(table)
    for cause, computed in sorted(document["miss_tokens"].items(), key=lambda row: -row[1]):
        if computed:
            stdout.print(f"computed because of {cause}: {computed / max(tokens['prompt'], 1):.1%}")
    ttft = document["ttft_seconds"]
    if document["saturated"]:
        stdout.print("saturated: requests come faster than the fleet can take, and wait ever longer")
    elif ttft:
        stdout.print(
            f"TTFT {format_seconds(ttft['mean'])} on average, {format_seconds(ttft['p50'])} median, "
            f"{format_seconds(ttft['p90'])} p90"
        )
    knee = document["knee_requests_per_second"]
    if knee is not None:
        stdout.print(f"bears {knee:.2f} requests/s before the mean TTFT has doubled")
    table = Table("replica", "requests", "prompt tokens")
    for number, replica in enumerate(document["per_replica"]):
        table.add_row(str(number), f"{replica['requests']:,}", f"{replica['tokens']:,}")
    stdout.print(table)
    if "routers" in document:
        _print_routers(document["routers"])
    if document["refused_requests"]:
        stdout.print(
            f"{document['refused_requests']:,} requests were refused: longer than an engine can hold, or too "
            "many at once for the proxy"
        )


def _print_routers(routers: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table("router", "hit ratio", "imbalance", "mean TTFT")
    for row in routers:
        ttft = format_seconds(row["mean_ttft_seconds"])
        table.add_row(row["policy"], f"{row['hit_ratio']:.1%}", f"{row['imbalance']:.2f}", ttft)
    stdout.print(table)
