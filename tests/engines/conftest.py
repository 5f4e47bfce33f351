"""Real engines for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.engines.all_tiers import Run, run_all_tiers
from tests.engines.environment import Environment, vllm_environment
from tests.engines.lmcache_environment import LMCacheEnvironment, lmcache_environment, vllm_with_lmcache


def pytest_collection_modifyitems(items):
    """Everything in here drives a real engine."""
    for item in items:
        if "engines" in item.path.parts:
            item.add_marker(pytest.mark.engines)


@pytest.fixture(scope="session")
def vllm() -> Environment:
    """An environment with vLLM and the checkout's probe, and the tiny model."""
    return vllm_environment()


@pytest.fixture(scope="session")
def lmcache() -> LMCacheEnvironment:
    """An environment with LMCache and the checkout's probe."""
    return lmcache_environment()


@pytest.fixture(scope="session")
def vllm_lmcache(vllm) -> Environment:
    """The environment with vLLM, and LMCache's connector beside it."""
    return vllm_with_lmcache(vllm)


@pytest.fixture(scope="session")
def all_tiers(vllm_lmcache, lmcache, tmp_path_factory) -> Run:
    """What real vLLM in front of a real LMCache server did with a workload of hundreds of requests."""
    return run_all_tiers(vllm_lmcache, lmcache, tmp_path_factory.mktemp("all-tiers"))
