"""Everything that runs is killed, paused, cut off, filled up and restarted: nothing is lost that is not told.

make long ARGS="tests/long/test_chaos.py -s"                          # 200 faults, forty minutes
TIERSCOPE_LONG=sample … tests/long/test_chaos.py -s                    # 5 faults
TIERSCOPE_CHAOS=7,50 make long ARGS="tests/long/test_chaos.py -s"      # another seed, so many faults
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from tests import lakes
from tests.engines import kube_server
from tests.load.chaos import FAULTS as FAULT_KINDS
from tests.load.chaos import LOSING
from tests.load.chaos_stage import POLLED
from tests.load.namespaces import UNSHARE, can_unshare
from tests.long_sample import SAMPLED
from tierscope.domain.requests import TokenSplit

pytestmark = pytest.mark.long

SEED, FAULTS = map(int, os.environ.get("TIERSCOPE_CHAOS", "1,5" if SAMPLED else "1,200").split(","))
STREAMED = {"feed", "vllm_hook", "vllm_events"}
"""Streams that nothing may be missing of."""


@pytest.fixture(scope="module")
def chaos(repository, tmp_path_factory):
    """What a run of chaos came to; skips, naming what is missing."""
    if not lakes.BINARIES:
        pytest.skip("PostgreSQL is not installed; `make system` installs it (package postgresql)")
    if (missing := kube_server.not_there()) is not None:
        pytest.skip(missing)
    if not can_unshare():
        pytest.skip("no network of its own: this wants root, unshare and ip (package iproute2)")
    folder = tmp_path_factory.mktemp("chaos")
    run = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.load.chaos", str(SEED), str(FAULTS), str(folder)],
        cwd=repository,
        env=os.environ | {"PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    return json.loads(run.stdout)


def test_whatever_befalls_it_sums_are_kept_and_nobody_has_to_help(chaos, capsys):
    """What was sent is stored, or died with a killed engine before it was handed over: equal to the token.

    After each fault the store caught up by itself.
    """
    with capsys.disabled():
        told(chaos)

    assert [one for one in chaos["faults"] if one["recovered_seconds"] is None] == []
    assert [one for one in chaos["faults"] if not one["befell"]] == [], "faults that befell nobody"
    assert [one for one in chaos["faults"] if one["missing"]] == [], "the first of these lost something"
    happened = Counter(one["kind"] for one in chaos["faults"])
    assert happened.total() == FAULTS
    assert max(happened.values()) - min(happened[kind] for kind in FAULT_KINDS) <= 1, (
        "some kinds came more often"
    )
    assert chaos["settled_seconds"] is not None
    stored, lost, sent = (TokenSplit(**chaos[name]) for name in ("stored", "lost", "sent"))
    assert stored + lost == sent
    assert chaos["unexplained"] == [], "lost, though the store says that its records came"
    assert [one for one in chaos["faults"] if one["lost"] and one["kind"] not in LOSING] == []
    assert sum(one["lost"] for one in chaos["faults"]) == lost.prompt
    streams = [source for source in chaos["sources"] if not source[0].startswith(POLLED)]
    assert {source.partition(":")[0] for source, received, *_ in streams if received} >= STREAMED
    assert {source: lost for source, _, *lost in streams if any(lost)} == {}


def told(chaos):
    """The table of docs/measurements.md."""
    by_kind = defaultdict(list)
    for fault in chaos["faults"]:
        by_kind[fault["kind"]].append(fault)
    loads = [fault["load"] for fault in chaos["faults"]]
    print(
        f"\nseed {chaos['seed']}, {len(chaos['faults'])} faults in {chaos['seconds'] / 60:.0f} min, load "
        f"{min(loads):.0f} to {max(loads):.0f}, restarts {chaos['restarts']}\n"
        "| fault | happened | had everything again after, median | longest | lost |\n|---|---|---|---|---|"
    )
    for kind, faults in sorted(by_kind.items()):
        befell = sum(fault["befell"] > 0 for fault in faults)
        took = [fault["recovered_seconds"] or float("inf") for fault in faults]
        lost = sum(fault["lost"] for fault in faults)
        median, longest = statistics.median(took), max(took)
        print(f"| {kind} | {befell} of {len(faults)} | {median:.1f} s | {longest:.1f} s | {lost} tokens |")
    for name in ("sent", "stored", "lost"):
        print(name, chaos[name])
    for source, received, missing, undecodable in sorted(chaos["sources"]):
        print(f"{source}: {received} received, {missing} missing, {undecodable} unreadable")
