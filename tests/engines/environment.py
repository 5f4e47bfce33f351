"""The environment real vLLM engines run in, and the model they serve.

Point TIERSCOPE_VLLM_ENVIRONMENT at a virtual environment to use that one instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.engines import virtualenv
from tests.engines.model import write_model

HERE = Path(__file__).parent
PINS = HERE / "vllm-0.32.0.txt"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with vLLM and the probe, and the model it serves."""

    folder: Path
    model: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def vllm_environment() -> Environment:
    """Return the vLLM environment, built first where it is missing (about 3 minutes, 3.5 GB)."""
    folder = virtualenv.prepared("vllm", PINS, given=os.environ.get("TIERSCOPE_VLLM_ENVIRONMENT"))
    model = virtualenv.cache() / f"model-{virtualenv.digest([HERE / 'model.py'])}"
    write_model(model)
    return Environment(folder, model)


def distributions(environment: Environment) -> set[str]:
    """Return what is installed, one `name==version` each."""
    return virtualenv.distributions(environment.folder)
