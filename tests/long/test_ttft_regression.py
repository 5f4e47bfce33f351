"""How well the regression detector does: measured residuals, mixes that change, and faults of the testbed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.faults_blamed import WHO
from tests.incidents import FAULTS, deployment, observations
from tests.long_sample import SAMPLED
from tests.requests_seen import reused
from tierscope.analytics.regression.detector import Detector, DetectorSettings, Regression
from tierscope.analytics.regression.observations import Observations
from tierscope.analytics.ttft import fit_ttft
from tierscope.testbed.config import IncidentKind

pytestmark = pytest.mark.long

RUNS = 3 if SAMPLED else 200
STEP, CLEAN, AFTER = 100, 5000, 10_000
STEP_REQUESTS = 50
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
            zero, zero, ttft, *reused(cached, zero),
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


SEEDS = range(1 if SAMPLED else 3)
LEAST_NAMED = 0.95


def raised(kind: IncidentKind | None, seed: int) -> list[Regression]:
    """What the detector raises in a run of the testbed, warm when it begins to learn."""
    seen, pool = observations(
        deployment(kind, seed + 1, warm_seconds=WARM_SECONDS, after_seconds=AFTER_SECONDS)
    )
    seen = seen.take(seen.at_unix_seconds > LEARN_FROM_SECONDS)
    detector, found = Detector(DetectorSettings(calibration_requests=3000)), []
    for start in range(0, len(seen.prompt), STEP_REQUESTS):
        part = seen.take(slice(start, start + STEP_REQUESTS))
        one = detector.feed(part, pool.until(float(part.at_unix_seconds[-1])))
        if one is not None:
            found.append(one)
    return found


def test_faults_of_the_testbed(capsys):
    """The first thing raised after a fault names its cause, tier and reason; nothing is raised before it."""
    kinds = [IncidentKind.ENGINE_SLOW, IncidentKind.L1_SHRUNK] if SAMPLED else sorted(WHO)
    named, early = [], []
    for kind, seed in product(kinds, SEEDS):
        found = raised(kind, seed)
        after = [one for one in found if one.found_unix_seconds > WARM_SECONDS]
        early += found[: len(found) - len(after)]
        blamed = after[0].attribution if after else None
        named.append(blamed is not None and WHO[kind].fits(blamed))
        with capsys.disabled():
            print(f"\n{kind} {seed}: {'right' if named[-1] else 'WRONG'}", *(
                f"| {one.attribution.cause} {one.attribution.tier} {one.attribution.reason} x{one.ratio:.2f} "
                f"after {one.found_unix_seconds - WARM_SECONDS:.0f} s" for one in found
            ), end="")  # fmt: skip

    with capsys.disabled():
        print(f"\n{sum(named)} of {len(named)} named right, {len(early)} raised before")
    assert set(WHO) == set(FAULTS)
    assert sum(named) >= LEAST_NAMED * len(named)
    assert not early


@pytest.mark.parametrize("seed", SEEDS)
def test_a_testbed_without_a_fault_raises_nothing(seed):
    """Though its caches fill, its pool forgets and its sessions come and go."""
    assert raised(None, seed) == []
