"""What the engine model works on: requests and where each stands, engines and what each does, step times.

Requests and engines are arrays of records: the compiled code hands them on by dozens of calls, and each array
of a call costs compilation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tierscope.domain.trace import Int32Array
from tierscope.sim.lmcache import Rules, Shelves
from tierscope.sim.memory import Memory
from tierscope.traces.paths import Paths

Records = Any
"""A record array; its fields are those of JOB or ENGINE."""

NOT_YET = -1.0

JOB = np.dtype(
    [
        # what is asked
        ("at_seconds", "f8"),
        ("prompt", "i8"),
        ("output", "i8"),
        ("named", "i8"),  # whole blocks of the prompt; its path goes on with what the answer fills
        # where it goes: a replica, or -1 for the router to choose; who has its session, or -1
        ("placement", "i4"),
        ("fallback", "i4"),
        ("gateway", "i4"),  # which of several asks for it
        ("draw", "f8"),
        # where it stands
        ("left", "i8"),  # prompt tokens to compute
        ("taken", "i8"),  # those of them in the step under way
        ("total", "i8"),  # prompt and answer so far
        ("made", "i8"),  # answer tokens so far
        ("nameless", "i8"),  # its blocks without a name
        ("found_l1", "i8"),  # chunks that its last lookup found, and holds while it is loading
        ("found_hit", "i8"),
        ("found_loaded", "i8"),
        ("loading", "?"),
        ("ready_seconds", "f8"),
        # what came of it, at its first admission: leading blocks in L0, chunks in L1, chunks in L1 and L2
        ("replica", "i4"),
        ("l0", "i4"),
        ("l1", "i4"),
        ("hit", "i4"),
        ("admitted_seconds", "f8"),
        ("ttft_seconds", "f8"),
        ("ended_seconds", "f8"),
    ]
)

ENGINE = np.dtype(
    [
        ("clock", "f8"),  # when its next step begins
        ("began", "f8"),  # when the last one did
        ("head", "i8"),  # of its queue, a ring
        ("waiting", "i8"),
        ("running", "i8"),
        # what its page tells: until the clock, and from then on (requests that wait, blocks in use)
        ("shown_waiting", "i8"),
        ("shown_busy", "i8"),
        ("next_waiting", "i8"),
        ("next_busy", "i8"),
    ]
)


class StepTimes(NamedTuple):
    """How long an engine's step takes, and what a step may hold.

        step = step_seconds + prefill tokens x prefill_seconds_per_token
             + pairs of a prefill token and one before it x attention_seconds_per_pair
             + tokens of context of decoding requests x context_seconds_per_token

    The defaults lie near a 7B model on one 48 GB inference GPU. `api_seconds` passes before the queue and
    after the first token; a load from L1 or L2 takes a fixed time and so much a token, beside the steps.
    """

    step_seconds: float = 0.02
    prefill_seconds_per_token: float = 84e-6
    attention_seconds_per_pair: float = 8e-10
    context_seconds_per_token: float = 6e-8
    api_seconds: float = 0.005
    l1_fixed_seconds: float = 0.0
    l1_seconds_per_token: float = 3.3e-6
    l2_fixed_seconds: float = 0.0
    l2_seconds_per_token: float = 33e-6
    step_tokens: int = 2048
    most_running: int = 256


class World(NamedTuple):
    """All engines and all requests. `queues` (replicas, n + 1) and `running` (replicas, most) hold requests.

    `running` is in order of admission. `jobs` (n,) are JOB records, `engines` (replicas,) ENGINE records.
    """

    times: StepTimes
    block_tokens: int
    chunk_tokens: int
    jobs: Records
    engines: Records
    queues: Int32Array
    running: Int32Array
    paths: Paths
    chunks: Paths
    memory: Memory
    shelves: Shelves
    rules: Rules


def new_jobs(n: int) -> Records:
    """Requests that have not come yet, nothing asked."""
    jobs = np.zeros(n, JOB).view(np.recarray)
    jobs.placement = jobs.fallback = jobs.replica = -1
    jobs.admitted_seconds = NOT_YET
    jobs.ttft_seconds = jobs.ended_seconds = np.nan
    return jobs


def new_engines(replicas: int) -> Records:
    """Engines that have nothing to do."""
    return np.zeros(replicas, ENGINE).view(np.recarray)
