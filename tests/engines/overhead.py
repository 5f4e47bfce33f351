"""What the probe costs a real engine: time inside it, and the engine with it against the engine without.

python -m tests.engines.overhead          prints the tables of docs/measurements.md
python -m tests.engines.overhead --json   prints them as numbers
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.engines import hook
from tests.engines.environment import Environment, vllm_environment
from tests.engines.page import Page
from tests.engines.pairs import Ratio, in_turn, ratios, table
from tests.engines.server import BLOCK_TOKENS, MAX_SEQUENCES, EngineServer, eventually, transfer_config
from tests.engines.workload import Workload

SIZES_BLOCKS = (1, 16, 32, 64, 128, 192, 250)
"""Full blocks of a prompt, all of them new to the engine."""
LONG_PROMPTS = (
    "--max-model-len", "8192", "--num-gpu-blocks-override", "600", "--max-num-batched-tokens", "8192",
    "--hf-overrides", '{"max_position_embeddings": 8192}',
)  # fmt: skip
REQUESTS_A_BURST = 24
STATS_SECONDS = 30.0


@dataclass(frozen=True)
class Cost:
    """Time in the scheduler's thread for prompts of one size: the median over batches of requests."""

    blocks: int
    requests: int
    us_a_request: float
    lowest_us_a_request: float
    us_a_step: float
    busy_ratio: float


@dataclass(frozen=True)
class Slope:
    """What further new blocks cost, fitted over all sizes from 64 blocks on."""

    us_at_64_blocks: float
    us_a_further_block: float


@dataclass(frozen=True)
class Report:
    """All of it."""

    costs: list[Cost]
    slope: Slope
    ratios: list[Ratio]


def measure(environment: Environment, folder: Path, *, batches: int = 9, pairs: int = 24) -> Report:
    """Measure both; about 5 minutes as it is."""
    costs = inside(environment, folder, batches=batches)
    return Report(costs, slope(costs), against(environment, folder, pairs=pairs))


def inside(environment: Environment, folder: Path, *, batches: int, requests: int = 8) -> list[Cost]:
    """Ask for unrelated prompts of each size, one at a time, and read the probe's statistics in between."""
    server = _server(environment, folder, "inside", probe=True, more=LONG_PROMPTS)
    with server, Workload(server.url) as workload:
        where = hook.addresses(folder / "inside.json")
        _ask(workload, "warm", blocks=64, requests=requests)
        return [
            _cost(server, workload, where, blocks, batches=batches, requests=requests)
            for blocks in SIZES_BLOCKS
        ]


def slope(costs: Sequence[Cost]) -> Slope:
    """Fit a line through the cheapest batches, which other processes disturbed least."""
    far = [cost for cost in costs if cost.blocks >= 64]
    a_block, at_none = np.polyfit([c.blocks for c in far], [c.lowest_us_a_request for c in far], 1)
    return Slope(float(at_none + 64 * a_block), float(a_block))


def against(environment: Environment, folder: Path, *, pairs: int) -> list[Ratio]:
    """Send the same bursts to an engine with the probe and to one without, taking turns in going first.

    The last rows have no probe in them: they compare the engine without one to itself a pair earlier, and so
    say how much of the others is noise.
    """
    kinds = ("with", "without")
    with ExitStack() as stack:
        asked = {}
        for kind in kinds:
            server = _server(environment, folder, kind, probe=kind == "with")
            asked[kind] = stack.enter_context(Workload(stack.enter_context(server).url))
        for workload in asked.values():
            _burst(workload, "warm")
        took = in_turn(kinds, lambda kind, pair: _burst(asked[kind], pair), pairs)
    on, off, names = took["with"], took["without"], ("time of a burst", "median latency in a burst")
    return [
        *ratios(names, "with / without", on, off),
        *ratios(names, "without / without a pair earlier", off[1:], off[:-1]),
    ]


def markdown(report: Report) -> str:
    """Return the tables."""
    lines = [
        "| new blocks | requests | µs a request: median batch | cheapest one | µs a step | % of busy time |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {c.blocks} | {c.requests} | {c.us_a_request:.1f} | {c.lowest_us_a_request:.1f} "
        f"| {c.us_a_step:.2f} | {100 * c.busy_ratio:.3f} |"
        for c in report.costs
    ]
    lines += ["", f"A further block costs {report.slope.us_a_further_block:.3f} µs.", ""]
    lines += table(report.ratios)
    return "\n".join(lines)


def _server(
    environment: Environment, folder: Path, name: str, *, probe: bool, more: tuple[str, ...] = ()
) -> EngineServer:
    (folder / name).mkdir()
    anywhere = "tcp://127.0.0.1:0"
    settings = {
        "endpoint": anywhere,
        "replay_endpoint": anywhere,
        "address_file": str(folder / f"{name}.json"),
    }
    arguments = transfer_config("ObservingConnector", tierscope=settings) if probe else ()
    return EngineServer(environment, folder / name, arguments=(*arguments, *more))


def _cost(
    server: EngineServer,
    workload: Workload,
    where: hook.Addresses,
    blocks: int,
    *,
    batches: int,
    requests: int,
) -> Cost:
    each, a_step, spent_seconds, busy_seconds = [], [], 0.0, 0.0
    before = _settled(where, workload)
    for batch in range(batches):
        busy_before = _busy_seconds(server)
        _ask(workload, batch, blocks=blocks, requests=requests)
        after = _settled(where, workload)
        spent = {kind: after["ns"][kind] - before["ns"][kind] for kind in after["ns"]}
        each.append(sum(spent.values()) / 1000 / requests)
        a_step.append(spent["meta"] / 1000 / (after["n"]["meta"] - before["n"]["meta"]))
        spent_seconds += sum(spent.values()) / 1e9
        busy_seconds += _busy_seconds(server) - busy_before
        before = after
    return Cost(
        blocks,
        batches * requests,
        statistics.median(each),
        min(each),
        statistics.median(a_step),
        spent_seconds / busy_seconds,
    )


def _busy_seconds(server: EngineServer) -> float:
    """Return the time requests spent in an engine; asked one at a time, it was busy for as long."""
    return Page(server.metrics()).amount("vllm:e2e_request_latency_seconds_sum")


def _settled(where: hook.Addresses, workload: Workload) -> hook.Record:
    """Return the statistics that know of every request's end."""
    ended = len(workload.sent)
    found: list[hook.Record] = []

    def knows_all() -> bool:
        found[:] = [record for record in hook.read_all(where, quiet_seconds=1.2) if record["t"] == "stats"]
        return bool(found) and found[-1]["n"]["finish"] >= ended

    assert eventually(knows_all, STATS_SECONDS), f"the probe never told of {ended} ends"
    return found[-1]


def _ask(workload: Workload, name: object, *, blocks: int, requests: int) -> None:
    """Ask, one after the other, for prompts of so many full blocks and a few tokens."""
    for number in range(requests):
        prompt = workload.words(f"{blocks} {name} {number}", blocks * BLOCK_TOKENS + 5)
        workload.complete("size", prompt, max_tokens=5)


def _burst(workload: Workload, name: object) -> tuple[float, float]:
    """Ask as many at a time as the engine takes; return seconds for all, and the median for one."""

    def one(number: int) -> float:
        began = time.perf_counter()
        shared = workload.words(f"shared {name}", 150)
        workload.complete("burst", f"{shared} {workload.words((name, number), 60)}", max_tokens=16)
        return time.perf_counter() - began

    began = time.perf_counter()
    with ThreadPoolExecutor(MAX_SEQUENCES) as pool:
        latencies = list(pool.map(one, range(REQUESTS_A_BURST)))
    return time.perf_counter() - began, statistics.median(latencies)


def main(arguments: Sequence[str]) -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as folder:
        report = measure(vllm_environment(), Path(folder))
    print(json.dumps(asdict(report), indent=1) if "--json" in arguments else markdown(report))


if __name__ == "__main__":
    main(sys.argv[1:])
