"""What the long tests rest on that the project does not ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import public_traces


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the public traces; skips, naming what is missing."""
    missing = public_traces.missing()
    if missing is not None:
        pytest.skip(missing)
    return public_traces.FOLDER
