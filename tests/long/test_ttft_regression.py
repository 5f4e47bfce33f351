"""How well the regression detector does: measured residuals, mixes that change, and faults of the testbed."""

from __future__ import annotations

import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.incidents import FAULTS, deployment, observations
from tierscope.analytics.regression.attribution import Cause, PoolReadings
from tierscope.analytics.regression.detector import Detector, DetectorSettings
from tierscope.analytics.regression.observations import Observations
from tierscope.analytics.ttft import fit_ttft
from tierscope.domain.tiers import Tier
from tierscope.testbed.config import IncidentKind

pytestmark = pytest.mark.long

SAMPLE = os.environ.get("TIERSCOPE_LONG") == "sample"
RUNS = 3 if SAMPLE else 200
STEP, CLEAN, AFTER = 100, 5000, 10_000
WARM_SECONDS, LEARN_FROM_SECONDS, AFTER_SECONDS = 4800.0, 2100.0, 1500.0


class Measured:
    """Prompts and TTFTs of real sessions; what is drawn from them has their lengths, hits and noise."""

    def __init__(self, path) -> None:
        table = pq.read_table(path, columns=["ttft_ms", "input_length", "block_ids"])
        self.prompt = table["input_length"].to_numpy().astype(float)
        self.cached = np.minimum(_seen_tokens(table["block_ids"].to_pylist()), self.prompt - 1)
        seconds = table["ttft_ms"].to_numpy() / 1000
        told = seconds > 0
        tokens = np.column_stack((self.prompt - self.cached, self.cached))
        self.fit = fit_ttft(tokens[told], seconds[told])
        self.residuals = np.log(seconds[told] / self.fit.seconds(tokens[told]))

    def draw(self, rng, n, at, *, slower=1.0, prompts=1.0, hits=1.0) -> Observations:
        """Requests a second apart."""
        which = rng.integers(0, len(self.prompt), n)
        prompt = self.prompt[which] * prompts
        cached = np.where(rng.random(n) < hits, self.cached[which] * prompts, 0.0)
        tokens = np.column_stack((prompt - cached, cached))
        ttft = self.fit.seconds(tokens) * np.exp(rng.choice(self.residuals, n)) * slower
        zero = np.zeros(n)
        return Observations(
            at + np.arange(n, dtype=float), 0.5 * cached, 0.3 * cached, 0.2 * cached, zero, prompt - cached,
            zero, zero, ttft, cached, zero, zero,
        )  # fmt: skip


def _seen_tokens(chains) -> np.ndarray:
    seen: set[int] = set()
    found = []
    for chain in chains:
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if chain[middle] in seen else (low, middle)
        found.append(low * 64.0)
        seen.update(chain[low:])
    return np.array(found)


@pytest.fixture(scope="module")
def measured(traces) -> Measured:
    return Measured(traces / "claude_code_sessions.parquet")


def alarms(measured, seed, **change) -> tuple[int, float | None]:
    """Alarms before a change, and requests from the change to the first alarm after it."""
    rng = np.random.default_rng(seed)
    detector = Detector()
    learnt = detector.settings.calibration_requests
    detector.feed(measured.draw(rng, learnt, 0.0))
    early = 0
    for at in range(learnt, learnt + CLEAN, STEP):
        early += detector.feed(measured.draw(rng, STEP, float(at))) is not None
    for at in range(learnt + CLEAN, learnt + CLEAN + AFTER, STEP):
        found = detector.feed(measured.draw(rng, STEP, float(at), **change))
        if found is not None:
            return early, found.found_unix_seconds - learnt - CLEAN + 1
    return early, None


@pytest.mark.parametrize(
    ("change", "least_found", "most_found", "most_delay"),
    [
        pytest.param({"prompts": 1.6, "hits": 0.5}, 0.0, 0.05, None, id="other prompts"),
        pytest.param({}, 0.0, 0.01, None, id="nothing"),
        pytest.param({"slower": 1.1}, 0.95, 1.0, 1200, id="a tenth slower"),
        pytest.param({"slower": 1.2}, 0.95, 1.0, 600, id="a fifth slower"),
    ],
)
def test_measured_residuals(measured, capsys, change, least_found, most_found, most_delay):
    """Found in nearly every run and soon; what is no regression is not found."""
    runs = [alarms(measured, seed, **change) for seed in range(RUNS)]
    delays = [delay for _, delay in runs if delay is not None]

    with capsys.disabled():
        print(f"\n{change}: early {sum(early for early, _ in runs)}, found {len(delays)} of {RUNS}, "
              f"median delay {np.median(delays) if delays else None}")  # fmt: skip
    assert least_found <= len(delays) / RUNS <= most_found
    assert sum(early for early, _ in runs) <= max(1, RUNS * CLEAN / 1e6)
    assert most_delay is None or np.median(delays) <= most_delay


WHO: dict[IncidentKind, tuple[Cause, Tier | None]] = {
    IncidentKind.L2_SLOW: (Cause.TIER_SPEED, Tier.L2),
    IncidentKind.L1_SHRUNK: (Cause.TIER_SHARE, Tier.L1),
    IncidentKind.SEED_MISMATCH: (Cause.TIER_SHARE, Tier.L2),
    IncidentKind.ROUTER_CHANGED: (Cause.TIER_SHARE, Tier.L0),
    IncidentKind.QUEUE: (Cause.QUEUE, None),
    IncidentKind.ENGINE_SLOW: (Cause.ENGINE, None),
}
"""A lost pool worker is not here: in this deployment it costs less than the smallest effect looked for."""


@pytest.mark.parametrize("kind", [IncidentKind.ENGINE_SLOW] if SAMPLE else sorted(WHO))
@pytest.mark.parametrize("seed", range(1 if SAMPLE else 3))
def test_faults_of_the_testbed(kind, seed, capsys):
    """The first thing found after the fault names its cause and its tier; before it nothing is found."""
    seen, _ = observations(deployment(kind, seed + 1, warm_seconds=WARM_SECONDS, after_seconds=AFTER_SECONDS))
    seen = seen.take(seen.at_unix_seconds > LEARN_FROM_SECONDS)
    detector = Detector(DetectorSettings(calibration_requests=3000))
    found = [
        one
        for start in range(0, len(seen.prompt), 50)
        if (one := detector.feed(seen.take(slice(start, start + 50)), PoolReadings())) is not None
    ]

    with capsys.disabled():
        for one in found:
            blamed, after = one.attribution, one.found_unix_seconds - WARM_SECONDS
            print(f"\n{kind} {seed}: {blamed.cause} {blamed.tier} {blamed.reason} after {after:.0f} s")
    assert found
    assert found[0].found_unix_seconds > WARM_SECONDS
    assert (found[0].attribution.cause, found[0].attribution.tier) == WHO[kind]
    assert kind in FAULTS
