"""A collector that advises nothing, in a process of its own, to be killed: see `started_collector`."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

from collectors.collector import Collector
from tests.staged import settings_file
from tierscope.cli.settings_file import load_settings
from tierscope.domain.settings import CollectorSettings, Settings

READY = "ready\n"
"""Its first line, once it collects."""


class _Abstention:
    def to_json(self) -> dict[str, str]:
        return {"status": "insufficient_evidence"}


def started_collector(
    settings: CollectorSettings, folder: Path, name: str = "collector"
) -> subprocess.Popen[str]:
    """Start one, with its settings in the folder; SIGTERM ends it in order."""
    path = settings_file(folder, name, Settings(collector=settings))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.collector_process", str(path)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )


def main(path: Path) -> None:
    """Collect until told to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = load_settings(path).collector
    with closing(Collector(settings, recommend=lambda *_, **__: _Abstention())) as collector:
        collector.start()
        print(READY, end="", flush=True)
        stop.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
