"""A process of another Python environment that answers a line of JSON with one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_SECONDS = 30.0


class LineProcess:
    """A program that says a first line once it is ready; use it as a context manager.

    What it prints elsewhere goes to `log`.
    """

    def __init__(self, command: Sequence[object], log: Path, environment: Mapping[str, str]) -> None:
        self._command = [str(part) for part in command]
        self._log = log
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,
            )
        try:
            self._answer()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        end_group(process)
        process.stdout.close()

    def answer_to(self, question: Mapping[str, object]) -> dict:
        """Return the answer to a line."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended:\n{self._log.read_text('utf-8', errors='replace')[-4000:]}"
        return json.loads(line)


def end_group(process: subprocess.Popen) -> None:
    """Ask a process and its children to end; kill them after a while."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
