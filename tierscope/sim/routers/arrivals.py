"""What a router sees of a trace: when requests come, whose they are, and what they begin with."""

from __future__ import annotations

from typing import NamedTuple

from tierscope.domain.trace import Int32Array, Int64Array, Trace
from tierscope.sim.paths import only
from tierscope.traces.paths import Paths


class Arrivals(NamedTuple):
    """n requests in order of arrival; `session` is -1 where the client sends no key. (n,) each.

    `paths` are the prompts' blocks of `block_tokens`, the partial last one too: the text, as routers read it.
    """

    at_ms: Int64Array
    session: Int32Array
    prompt_tokens: Int64Array
    paths: Paths
    block_tokens: int


def arrivals_of(trace: Trace) -> Arrivals:
    """A trace as routers see it."""
    n_ids = int(trace.block_ids.max(initial=-1)) + 1
    paths = Paths(trace.offsets, trace.block_ids, n_ids)
    return Arrivals(trace.at_ms, trace.session, trace.input_tokens, paths, trace.block_tokens)


def some(arrivals: Arrivals, requests: Int64Array) -> Arrivals:
    """Some of the requests, in that order."""
    return Arrivals(
        arrivals.at_ms[requests],
        arrivals.session[requests],
        arrivals.prompt_tokens[requests],
        only(arrivals.paths, requests),
        arrivals.block_tokens,
    )
