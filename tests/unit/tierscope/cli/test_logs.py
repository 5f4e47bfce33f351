"""The log of a long-running command, as its own process writes it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging
from tierscope.cli.logs import log_to_stderr
log_to_stderr()
logging.getLogger("httpx").info("HTTP Request: GET")
logging.getLogger("httpcore.connection").info("connect")
logging.getLogger("httpx").warning("a warning")
logging.getLogger("exporters.process").info("is back")
"""


def test_our_own_log_is_told_and_each_request_is_not(repository):
    """An exporter that polls would write several lines a second; what a library warns of stays."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=repository, capture_output=True, text=True, check=True
    )

    assert child.stdout == ""
    assert "INFO exporters.process: is back" in child.stderr
    assert "WARNING httpx: a warning" in child.stderr
    assert len(child.stderr.splitlines()) == 2
