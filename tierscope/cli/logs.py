"""Where the log of a long-running command goes, and how much of it."""

from __future__ import annotations

import logging

TALKATIVE = ("httpx", "httpcore")
"""Libraries that tell of each request at INFO: several lines a second from an exporter that polls."""


def log_to_stderr() -> None:
    """Write what happens to stderr, a line each; does nothing where logging was set up already."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
