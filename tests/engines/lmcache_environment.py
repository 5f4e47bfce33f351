"""The environment a real LMCache server runs in.

It is not vLLM's: the two pin different releases of OpenTelemetry, numpy and protobuf. Point
TIERSCOPE_LMCACHE_ENVIRONMENT at a virtual environment to use that one instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.engines import virtualenv

PINS = Path(__file__).parent / "lmcache-0.5.6.txt"


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
