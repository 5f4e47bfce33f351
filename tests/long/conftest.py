"""What of the long tests a sample leaves out as a whole."""

from __future__ import annotations

import os

# The page with Grafana's components is half a gigabyte of npm packages, and its pictures are for people.
collect_ignore = ["test_boards_seen.py"] if os.environ.get("TIERSCOPE_LONG") == "sample" else []
