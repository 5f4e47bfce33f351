"""PromQL at known inputs: series in, samples out, evaluated by promtool."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dashboards.promql import RATE_INTERVAL
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.registry.types import Metric


def series(metric: Metric, values: str, *, part: str = "", **labels: str) -> dict[str, str]:
    """One input series in promtool's notation, a value a scrape; `part` is `_bucket` or `_count`."""
    inner = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{metric.name}{part}{{{inner}}}", "values": values}


def engine(replica: str = "chat-0", endpoint: str = "chat") -> dict[str, str]:
    """The labels of one engine."""
    return {"namespace": "ns", "endpoint": endpoint, "model": "m", "replica": replica, "rank": "0"}


def tokens(replica: str = "chat-0", endpoint: str = "chat", **by_tier: int) -> list[dict[str, str]]:
    """Request tokens that grow by so many a minute in each tier."""
    return [
        series(REQUEST_TOKENS, f"0+{growth}x20", **engine(replica, endpoint), tier=tier)
        for tier, growth in by_tier.items()
    ]


def chosen(expression: str, *, window: str = "4m", **variables: str) -> str:
    """A board's expression as Grafana would send it, with everything chosen but what `variables` name."""
    everything = dict.fromkeys(("cluster", "namespace", "endpoint", "model", "replica"), ".*")
    for name, value in (everything | variables).items():
        expression = expression.replace(f"${name}", value)
    return expression.replace(RATE_INTERVAL, window)


class PromtoolCases:
    """Evaluates expressions in a folder; `interval` is the scrape interval."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder

    def check(
        self,
        inputs: list[dict[str, str]],
        expression: str,
        expected: Mapping[str, float],
        *,
        at: str = "10m",
        interval: str = "1m",
        rule_files: tuple[str, ...] = (),
    ) -> None:
        """Fail unless the expression has exactly these samples, by labels such as '{tier="l0"}'."""
        samples = [{"labels": labels, "value": round(value, 6)} for labels, value in expected.items()]
        case: dict[str, Any] = {
            "interval": interval,
            "input_series": inputs,
            # promtool compares bit for bit: a sixth decimal is enough for us.
            "promql_expr_test": [
                {"expr": f"round({expression}, 1e-6)", "eval_time": at, "exp_samples": samples}
            ],
        }
        document = {"rule_files": list(rule_files), "evaluation_interval": interval, "tests": [case]}
        (self._folder / "case.yaml").write_text(yaml.safe_dump(document))
        done = subprocess.run(
            [self._binary, "test", "rules", "case.yaml"],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
