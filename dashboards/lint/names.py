"""No metric name is spelled in our code outside the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("tierscope", "collectors", "exporters", "dashboards", "api")
TABLE = ("tierscope", "registry")
QUOTED = re.compile(r"""["'`]tierscope_(?!probe\b)\w+""")
"""A quoted name under our prefix; tierscope_probe is a package."""


def spelled_names(root: Path) -> Iterator[str]:
    """Places under `root`, as file:line, where a metric name stands in quotes outside the table."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            place = path.relative_to(root)
            if place.parts[:2] == TABLE:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                for found in QUOTED.findall(line):
                    yield f"{place}:{number}: {found[1:]} is spelled outside tierscope/registry"
