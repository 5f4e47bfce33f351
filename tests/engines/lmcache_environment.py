"""The environment a real LMCache server runs in.

It is not vLLM's: the two pin different releases of OpenTelemetry, numpy and protobuf. Point
TIERSCOPE_LMCACHE_ENVIRONMENT at a virtual environment to use that one instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.engines import virtualenv
from tests.engines.environment import Environment

PINS = Path(__file__).parent / "lmcache-0.5.6.txt"
CONNECTOR_PINS = Path(__file__).parent / "lmcache-connector-0.5.6.txt"


@dataclass(frozen=True)
class LMCacheEnvironment:
    """A virtual environment with LMCache and the probe."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def command(self) -> Path:
        """Its `lmcache` command."""
        return self.folder / "bin" / "lmcache"


def lmcache_environment() -> LMCacheEnvironment:
    """Return the LMCache environment, built first where it is missing (about 90 seconds, 1.4 GB)."""
    given = os.environ.get("TIERSCOPE_LMCACHE_ENVIRONMENT")
    return LMCacheEnvironment(virtualenv.prepared("lmcache", PINS, given=given))


def vllm_with_lmcache(vllm: Environment) -> Environment:
    """Return vLLM's environment with LMCache's connector laid over it (about 100 MB)."""
    folder = virtualenv.prepared("-lmcache", CONNECTOR_PINS, base=vllm.folder)
    return Environment(folder, vllm.model)
