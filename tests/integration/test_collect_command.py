"""`tierscope collect` as a process: where it says it is, it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.exporting import Scrape
from tests.ports import free_port
from tierscope.registry import metrics

STOP_SECONDS = 120


def test_its_page_is_on_the_port_of_its_settings(tmp_path, repository):
    """Bound once, announced, and gone without an error when its parent is."""
    port = free_port()
    config = tmp_path / "config.yaml"
    config.write_text(f"collector: {{store_path: {tmp_path / 'store.duckdb'}, listen_port: {port}}}\n")
    command = [sys.executable, "-m", "tierscope.cli", "collect", "--config", config, "--json", "--lifeline"]
    environ = {**os.environ, "PYTHONPATH": str(repository)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        announced = json.loads(process.stdout.readline())
        page = Scrape(announced["metrics_url"])
        process.stdin.close()

        assert process.wait(STOP_SECONDS) == 0
    assert announced["metrics_url"] == f"http://127.0.0.1:{port}/metrics"
    assert page.sums(metrics.STORE_BYTES)[()] > 0
