"""The sample of the long tests (`make long-sample`), and what it leaves out: that is told, never silent.

In CI a skip is a failure. What a sample is not expected to run is no skip, therefore: it is not selected, and
the last lines of the run name it and say why.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from tests import public_traces

SAMPLED = os.environ.get("TIERSCOPE_LONG") == "sample"
TOO_LARGE = {
    "test_boards_seen.py": "Grafana's components are half a gigabyte of npm packages, the pictures for people"
}
"""Files of which a sample runs nothing."""


class LeftOut:
    """Takes out of a sample what it leaves out, and names it in the end."""

    def __init__(self) -> None:
        self._names: defaultdict[str, list[str]] = defaultdict(list)
        """Tests by the reason."""

    @pytest.hookimpl(trylast=True)  # of what is selected
    def pytest_collection_modifyitems(self, config, items):
        reasons = {item: reason for item in items if (reason := _reason(item)) is not None}
        for item, reason in reasons.items():
            self._names[reason].append(item.nodeid)
        if reasons:
            config.hook.pytest_deselected(items=list(reasons))
            items[:] = [item for item in items if item not in reasons]
        if hasattr(config, "workeroutput"):
            config.workeroutput["tierscope_left_out"] = dict(self._names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        """Of workers, each of which has collected everything, one tells for all."""
        self._names |= getattr(node, "workeroutput", {}).get("tierscope_left_out", {})

    def pytest_terminal_summary(self, terminalreporter):
        if self._names:
            terminalreporter.section("left out of the sample", yellow=True)
        for reason, names in sorted(self._names.items()):
            terminalreporter.line(f"{reason}:")
            for name in names:
                terminalreporter.line(f"    {name}")


def _reason(item: pytest.Item) -> str | None:
    if item.get_closest_marker("long") is None:
        return None
    if "traces" in getattr(item, "fixturenames", ()):
        return public_traces.missing()
    return TOO_LARGE.get(item.path.name)
