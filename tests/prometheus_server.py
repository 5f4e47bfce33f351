"""A real Prometheus on loopback, for as long as a test needs it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.ports import free_port
from tests.processes import stop

SHIPPED = Path(__file__).parent.parent / "deploy" / "prometheus" / "prometheus.yml"
READY_SECONDS = 180.0
POLL_SECONDS = 0.1


def wait_until(found: Callable[[], Any], *, seconds: float, what: str) -> Any:
    """Ask until the answer is truthy and return it; fails, saying what was waited for, at the deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def shipped_configuration(
    *pages: str,
    scrape_seconds: int | None = None,
    labels: Mapping[str, str] | None = None,
    alertmanager: str | None = None,
) -> dict[str, Any]:
    """What deploy/ ships, with its rules, for pages at these addresses and, if given, an Alertmanager.

    Scraped and evaluated as often as shipped, or every `scrape_seconds`. `labels` are those that discovery
    would attach to the pages.
    """
    found: dict[str, Any] = yaml.safe_load(SHIPPED.read_text("utf-8"))
    if scrape_seconds is not None:
        times = ("scrape_interval", "scrape_timeout", "evaluation_interval")
        found["global"] = dict.fromkeys(times, f"{scrape_seconds}s")
    found["rule_files"] = [str((SHIPPED.parent / name).resolve()) for name in found["rule_files"]]
    [ours] = found["scrape_configs"]
    ours["static_configs"] = [
        {
            "targets": [page.removeprefix("http://").removesuffix("/metrics") for page in pages],
            "labels": dict(labels or {}),
        }
    ]
    if alertmanager is None:
        del found["alerting"]
    else:
        [managers] = found["alerting"]["alertmanagers"]
        managers["static_configs"] = [{"targets": [alertmanager]}]
    return found


class PrometheusServer:
    """Runs `prometheus` on a configuration, in a folder; ask it with `query` and `get`."""

    def __init__(self, binary: str, configuration: Mapping[str, Any], folder: Path) -> None:
        self._folder = folder
        self._log = folder / "prometheus.log"
        (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(configuration)))
        # Prometheus cannot take a port of the system's choice: try free ones until one is still free.
        for _ in range(3):
            self.url = f"http://127.0.0.1:{self._start(binary)}"
            self._client = httpx.Client(base_url=self.url, timeout=60)
            try:
                if wait_until(self._decided, seconds=READY_SECONDS, what="Prometheus to be ready") == "ready":
                    return
            except BaseException:
                self.close()
                raise
            self.close()
        raise AssertionError(f"Prometheus does not start:\n{self._log.read_text()}")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an instant query; fails with Prometheus' words where it refuses the expression."""
        answer = self._client.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{answer.get('error')}: {expression}"
        return answer["data"]["result"]

    def query_over(self, expression: str, *, seconds: float, steps: int) -> list[dict[str, Any]]:
        """Series of a range query over the time up to now, as a panel asks it."""
        now = time.time()
        asked = {"query": expression, "start": now - seconds, "end": now, "step": seconds / steps}
        answer = self._client.get("/api/v1/query_range", params=asked, timeout=120).json()
        assert answer["status"] == "success", f"{answer.get('error')}: {expression}"
        return answer["data"]["result"]

    def get(self, path: str) -> Any:
        """The data of another page of its API, such as `rules` or `targets`."""
        return self._client.get(f"/api/v1/{path}").raise_for_status().json()["data"]

    def close(self) -> None:
        """Stop it and wait until it is gone."""
        self._client.close()
        stop(self._process)

    def _start(self, binary: str) -> int:
        port = free_port()
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    binary,
                    "--config.file=prometheus.yml",
                    "--storage.tsdb.path=data",
                    "--enable-feature=exemplar-storage",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return port

    def _decided(self) -> str | None:
        if self._process.poll() is not None:
            return "gone"
        try:
            return "ready" if self._client.get("/-/ready").is_success else None
        except httpx.TransportError:
            return None
