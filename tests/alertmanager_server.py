"""A real Alertmanager on loopback with our example configuration, only quicker."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.ports import free_port
from tests.processes import stop
from tests.prometheus_server import wait_until

EXAMPLE = Path(__file__).parent.parent / "deploy/prometheus/alertmanager.yml"
READY_SECONDS = 180.0


def quick_example(webhook_url: str) -> dict[str, Any]:
    """The example with waits of a test and receivers at `webhook_url`; routes and inhibitions as shipped."""
    configuration: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    configuration["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    for receiver in configuration["receivers"]:
        for hook in receiver.get("webhook_configs", ()):
            hook["url"] = f"{webhook_url}/{receiver['name']}"
    return configuration


class AlertmanagerServer:
    """Runs `prometheus-alertmanager` in a folder until it is closed."""

    def __init__(self, binary: str, configuration: dict[str, Any], folder: Path) -> None:
        self._folder = folder
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(configuration, sort_keys=False))
        for _ in range(3):  # it cannot take a port of the system's choice: a free one may be taken by then
            self.address = f"127.0.0.1:{free_port()}"
            self._client = httpx.Client(base_url=f"http://{self.address}", timeout=60)
            self._process = self._start(binary)
            try:
                if (
                    wait_until(self._decided, seconds=READY_SECONDS, what="Alertmanager to be ready")
                    == "ready"
                ):
                    return
            except BaseException:
                self.close()
                raise
            self.close()
        raise AssertionError(f"Alertmanager does not start:\n{(folder / 'alertmanager.log').read_text()}")

    def post(self, *alerts: dict[str, str]) -> None:
        """Send alerts by their labels, as Prometheus would."""
        body = [{"labels": labels, "annotations": {"summary": "x"}} for labels in alerts]
        self._client.post("/api/v2/alerts", json=body).raise_for_status()

    def inhibited(self) -> list[str]:
        """Names of the alerts that another one silences now."""
        alerts = self._client.get("/api/v2/alerts").raise_for_status().json()
        return sorted(one["labels"]["alertname"] for one in alerts if one["status"]["inhibitedBy"])

    def close(self) -> None:
        """Stop it and wait until it is gone."""
        self._client.close()
        stop(self._process)

    def _start(self, binary: str) -> subprocess.Popen[bytes]:
        with (self._folder / "alertmanager.log").open("w") as log:
            return subprocess.Popen(
                [
                    binary,
                    "--config.file=alertmanager.yml",
                    "--storage.path=data",
                    f"--web.listen-address={self.address}",
                    "--cluster.listen-address=",
                ],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _decided(self) -> str | None:
        if self._process.poll() is not None:
            return "gone"
        try:
            return "ready" if self._client.get("/-/ready").is_success else None
        except httpx.TransportError:
            return None
