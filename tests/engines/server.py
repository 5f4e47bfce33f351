"""Real engine servers: started on free ports, waited for, and stopped with all their processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import httpx

from tests.engines.environment import Environment
from tests.ports import free_port

MODEL_NAME = "tiny"
BLOCK_TOKENS = 32
NUM_BLOCKS = 64
"""One of them is vLLM's null block: 63 blocks, 2,016 tokens, can hold prompts."""
MAX_SEQUENCES = 4
MAX_MODEL_TOKENS = 1024

START_SECONDS = 480.0
STOP_SECONDS = 30.0

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "2",
    "VLLM_SERVER_DEV_MODE": "1",
    "PYTHONHASHSEED": "0",
}


class EngineServer:
    """One vLLM API server with its engine processes; use it as a context manager.

    `arguments` are added to the flags every test wants, `environ` to the environment. Output goes to
    `folder`/server.log, whose end is shown when the server does not come up.
    """

    def __init__(
        self,
        environment: Environment,
        folder: Path,
        *,
        arguments: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        self._environment = environment
        self._arguments = arguments
        self._environ = {**os.environ, **ENVIRONMENT, **(environ or {})}
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port() if port is None else port

    @property
    def url(self) -> str:
        """Base address of its API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the API server, which leads the group of all its processes."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> EngineServer:
        try:
            self.start()
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the processes in a group of their own."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in self._command()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it answers; fails with the end of its log when it dies or takes too long."""

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the engine died:\n{self.log_end()}"
            try:
                return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        assert eventually(answers, START_SECONDS, pause_seconds=0.25), f"no answer:\n{self.log_end()}"

    def stop(self) -> None:
        """Ask it to end; kill what is left of its group after a while."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End every process at once, as a crash or an eviction of the pod would."""
        self._end(signal.SIGKILL)

    def metrics(self) -> str:
        """Return its Prometheus page."""
        return httpx.get(f"{self.url}/metrics", timeout=30).raise_for_status().text

    def log_end(self, lines: int = 60) -> str:
        """Return the last lines of its output."""
        return "\n".join(self._log.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        group = self._process.pid
        _signal_group(group, how)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        _signal_group(group, signal.SIGKILL)
        self._process.wait()
        assert eventually(lambda: not _group_lives(group), STOP_SECONDS), f"group {group} outlives its end"
        self._process = None

    def _command(self) -> list[str | Path | int]:
        return [
            self._environment.python, "-m", "vllm.entrypoints.openai.api_server",
            "--model", self._environment.model, "--served-model-name", MODEL_NAME,
            "--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager", "--seed", 0,
            "--host", "127.0.0.1", "--port", self.port,
            "--max-model-len", MAX_MODEL_TOKENS, "--max-num-seqs", MAX_SEQUENCES,
            "--block-size", BLOCK_TOKENS, "--num-gpu-blocks-override", NUM_BLOCKS,
            "--enable-prefix-caching", "--enable-prompt-tokens-details",
            *self._arguments,
        ]  # fmt: skip


def transfer_config(connector: str, *, role: str = "kv_producer", **extra: object) -> tuple[str, str]:
    """Return the flag that puts a connector of the probe into the engine."""
    document = {
        "kv_connector": connector,
        "kv_connector_module_path": "tierscope_probe.connectors",
        "kv_role": role,
        "kv_connector_extra_config": extra,
    }
    return "--kv-transfer-config", json.dumps(document)


def kv_events_config(port: int, replay_port: int) -> tuple[str, str]:
    """Return the flag that makes the engine publish its KV events: it binds no address but `*`."""
    document = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{port}",
        "replay_endpoint": f"tcp://*:{replay_port}",
    }
    return "--kv-events-config", json.dumps(document)


def eventually(holds: Callable[[], bool], seconds: float, *, pause_seconds: float = 0.05) -> bool:
    """Whether something comes to hold before a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_seconds)
    return True


def _signal_group(group: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, how)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
