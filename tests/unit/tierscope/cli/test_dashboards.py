"""`tierscope dashboards` writes files for Grafana and Prometheus, and checks what it would write."""

from __future__ import annotations

import yaml
from typer.testing import CliRunner

from dashboards.boards import BOARDS
from dashboards.lint import report
from tierscope.cli.dashboards import FaultyDashboards
from tierscope.cli.generated import StaleFiles
from tierscope.cli.main import app

runner = CliRunner()


def test_build_writes_every_board_and_rule_file(tmp_path):
    """Into a folder that need not be there yet, and nothing else."""
    result = runner.invoke(app, ["dashboards", "build", "--output", str(tmp_path / "new")])

    assert result.exit_code == 0, result.output
    found = {
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()
    }
    assert found == {
        *(f"{form}/{uid}.json" for form in ("classic", "v2") for uid in BOARDS),
        "kustomization.yaml",
        "tierscope-rules.yaml",
        "tierscope-prometheusrule.yaml",
        "tierscope-grafana-rules.yaml",
    }


def test_build_links_alerts_to_runbooks_where_you_say(tmp_path):
    """People who mirror the runbooks get links that open."""
    runner.invoke(
        app, ["dashboards", "build", "--output", str(tmp_path), "--runbooks-url", "https://wiki.example/kv"]
    )

    rules = yaml.safe_load((tmp_path / "tierscope-rules.yaml").read_text())
    links = [
        rule["annotations"]["runbook_url"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert all(link.startswith("https://wiki.example/kv/Tierscope") for link in links)


def test_build_check_names_what_is_stale_and_writes_nothing(tmp_path):
    """A file edited by hand, or missing, fails."""
    built = ["dashboards", "build", "--output", str(tmp_path)]
    runner.invoke(app, built)
    assert runner.invoke(app, [*built, "--check"]).exit_code == 0
    (tmp_path / "tierscope-rules.yaml").write_text("groups: []\n")

    result = runner.invoke(app, [*built, "--check"])

    assert isinstance(result.exception, StaleFiles)
    assert result.exception.where == "tierscope-rules.yaml"
    assert (tmp_path / "tierscope-rules.yaml").read_text() == "groups: []\n"


def test_check_passes_on_our_own():
    """What we ship is in order."""
    assert runner.invoke(app, ["dashboards", "check"]).exit_code == 0


def test_check_lists_every_problem(monkeypatch):
    """All of them at once, and status 1."""
    monkeypatch.setattr(report, "problems", lambda _: iter(["one is wrong", "two is wrong"]))

    result = runner.invoke(app, ["dashboards", "check"])

    assert isinstance(result.exception, FaultyDashboards)
    assert "one is wrong" in result.exception.where
    assert "two is wrong" in result.exception.where
    assert result.exception.exit_status == 1
