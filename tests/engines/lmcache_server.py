"""A real LMCache multiprocess server with the probe in it, and a client in place of an engine's worker."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import httpx

from tests.engines.line_process import LineProcess, end_group
from tests.engines.lmcache_environment import LMCacheEnvironment
from tests.engines.server import eventually
from tests.ports import free_port

CHUNK_TOKENS = 64
CHUNK_BYTES = 131_072
"""Of the client's worker: 4 layers, 2 heads of 64, keys and values, 2 bytes."""
START_SECONDS = 120.0
CLIENT = Path(__file__).parent / "lmcache_client.py"

ENVIRONMENT = {
    "LMCACHE_TRACK_USAGE": "false",
    "LMCACHE_DISABLE_BANNER": "1",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
}


class LMCacheServer:
    """`lmcache server` with an L1 of so many chunks and a directory as L2; use it as a context manager.

    `module` is the config of the probe's module, which is left out without `probe`. Output goes to
    `folder`/lmcache.log.
    """

    def __init__(
        self,
        environment: LMCacheEnvironment,
        folder: Path,
        *,
        l1_chunks: int = 32,
        chunk_bytes: int = CHUNK_BYTES,
        watermark_ratio: float = 0.8,
        pool: Path | None = None,
        probe: bool = True,
        arguments: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        **module: object,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._l1_gib = l1_chunks * chunk_bytes / 2**30
        self._watermark_ratio = watermark_ratio
        self._arguments = arguments
        self._environ = {**os.environ, **ENVIRONMENT, **(environ or {})}
        self._module = module if probe else None
        self._log = folder / "lmcache.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.pool = pool or folder / "pool"
        self.addresses = folder / "lmcache-probe.json"
        self.rpc_port = free_port()
        self.http_port = free_port()

    @property
    def url(self) -> str:
        """Base address of its HTTP API."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def rpc_url(self) -> str:
        """Address for engines' workers."""
        return f"tcp://127.0.0.1:{self.rpc_port}"

    def __enter__(self) -> LMCacheServer:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def processor_seconds(self) -> float:
        """Return the time that its threads have spent on a processor so far."""
        assert self._process is not None
        # the kernel's name of another process's processor clock, as clock_getcpuclockid makes it
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def metrics(self) -> str:
        """Return its Prometheus page."""
        return httpx.get(f"{self.url}/metrics", timeout=30).raise_for_status().text

    def status(self) -> dict:
        """Return its `/status` document."""
        return httpx.get(f"{self.url}/status", timeout=30).raise_for_status().json()

    def clear(self) -> None:
        """Clear L1, as an operator would."""
        httpx.post(f"{self.url}/cache/clear", timeout=30).raise_for_status()

    def delete(self, keys: list[dict]) -> dict:
        """Delete objects from L1 by name."""
        body = {"tier": "l1", "keys": keys}
        answer = httpx.request("DELETE", f"{self.url}/cache/objects", json=body, timeout=30)
        return answer.raise_for_status().json()

    def client(self, *, ranks: int = 1) -> LMCacheClient:
        """Return a worker of an engine, for use as a context manager."""
        return LMCacheClient(self._environment, self, self._folder / "client.log", ranks)

    def stop(self) -> None:
        """Ask it to end; kill it after a while."""
        if self._process is None:
            return
        end_group(self._process)
        self._process = None

    def log_end(self, lines: int = 60) -> str:
        """Return the last lines of its output."""
        return "\n".join(self._log.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def _start(self) -> None:
        self.pool.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in self._command()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environ,
                cwd=self._folder,
                start_new_session=True,
            )
        process = self._process

        def answers() -> bool:
            assert process.poll() is None, f"the server died:\n{self.log_end()}"
            try:
                return httpx.get(f"{self.url}/healthcheck", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        assert eventually(answers, START_SECONDS, pause_seconds=0.1), f"no answer:\n{self.log_end()}"

    def _command(self) -> list[object]:
        return [
            self._environment.command, "server", "--instance-id", "server-under-test",
            "--host", "127.0.0.1", "--port", self.rpc_port,
            "--http-host", "127.0.0.1", "--http-port", self.http_port,
            "--chunk-size", CHUNK_TOKENS, "--supported-transfer-mode", "auto",
            "--l1-size-gb", self._l1_gib, "--no-l1-use-lazy",
            "--eviction-policy", "LRU", "--eviction-ratio", 0.25,
            "--eviction-trigger-watermark", self._watermark_ratio,
            "--l2-adapter", json.dumps({"type": "fs", "base_path": str(self.pool), "shared": True}),
            *self._probe(),
            *self._arguments,
        ]  # fmt: skip

    def _probe(self) -> tuple[str, ...]:
        """The flag that loads the probe, if it is wanted."""
        if self._module is None:
            return ()
        module = {
            "module_path": "tierscope_probe.lmcache_module",
            "factory_name": "build_server_modules",
            "config": {
                "endpoint": "tcp://127.0.0.1:*",
                "replay_endpoint": "tcp://127.0.0.1:*",
                "address_file": str(self.addresses),
                **self._module,
            },
        }
        return "--server-module", json.dumps(module)


class LMCacheClient(LineProcess):
    """An engine's worker in a process of its own, because LMCache is not installed beside the tests."""

    def __init__(self, environment: LMCacheEnvironment, server: LMCacheServer, log: Path, ranks: int) -> None:
        command = (environment.python, CLIENT, server.rpc_url, server.url, ranks, CHUNK_TOKENS)
        super().__init__(command, log, ENVIRONMENT)

    def ask(self, rid: str, tokens: list[int], **how: object) -> dict:
        """Take a prompt through the server; returns hit, retrieved and stored tokens."""
        return self.answer_to({"rid": rid, "tokens": tokens, **how})
