"""What several tests of advice begin with."""

from __future__ import annotations

import numpy as np
import pytest

from tests import workloads as w
from tierscope.domain.split import Split


@pytest.fixture
def starving():
    """A window that computes everything although the model would serve half from cache."""
    window = w.window(w.cycle(40, 1000))
    nothing = np.zeros_like(window.prompt)
    half = window.prompt // 2
    return window, Split(nothing, nothing, half, window.prompt - half)
