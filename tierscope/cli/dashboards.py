"""`tierscope dashboards`: write Grafana boards and Prometheus rules, or check them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tierscope.cli.generated import Generated, refuse_stale, write
from tierscope.cli.output import stderr
from tierscope.domain.errors import TierscopeError

app = typer.Typer(help="Grafana boards, recording rules and alerts, made from the metric table.")

RUNBOOKS = "dashboards/runbooks"


class FaultyDashboards(TierscopeError):
    """Boards or rules that would show or say something wrong."""


@dataclass(frozen=True, slots=True)
class RuleChoices:
    """What whoever builds the rules may choose."""

    runbooks_url: str = RUNBOOKS
    ttft_seconds: float = 2.0
    ttft_share: float = 0.95
    datasource_uid: str = "prometheus"
    grafana_url: str = ""


def dashboard_files(folder: str = "", choices: RuleChoices = RuleChoices()) -> tuple[Generated, ...]:
    """Every board in both forms, every rule file; `folder`, ending in a slash, goes before their names."""
    from dashboards.boards import BOARDS
    from dashboards.kustomization import kustomization
    from dashboards.rules.grafana import grafana_rules
    from dashboards.rules.objective import TtftObjective
    from dashboards.rules.render import Links, prometheus_rule, rule_file, rule_groups

    groups = rule_groups(TtftObjective(choices.ttft_seconds, choices.ttft_share))
    links = Links(choices.runbooks_url, choices.grafana_url)
    files = (
        *(Generated(f"{folder}classic/{uid}.json", render) for uid, render in BOARDS.items()),
        *(Generated(f"{folder}v2/{uid}.json", _second_form(render)) for uid, render in BOARDS.items()),
        Generated(f"{folder}kustomization.yaml", lambda: kustomization(BOARDS)),
        Generated(
            f"{folder}tierscope-grafana-rules.yaml",
            lambda: grafana_rules(groups, links=links, datasource_uid=choices.datasource_uid),
        ),
        Generated(f"{folder}tierscope-prometheusrule.yaml", lambda: prometheus_rule(groups, links)),
        Generated(f"{folder}tierscope-rules.yaml", lambda: rule_file(groups, links)),
    )
    return tuple(sorted(files, key=lambda file: file.path))


def _second_form(render: Callable[[], str]) -> Callable[[], str]:
    from dashboards.v2 import v2_form

    return lambda: v2_form(render())


@app.command()
def build(
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("dashboards/generated"),
    runbooks_url: Annotated[
        str, typer.Option(help="Address under which your people find the runbooks; alerts link to it.")
    ] = RUNBOOKS,
    ttft_seconds: Annotated[
        float, typer.Option(help="What an endpoint promises for TTFT; an edge of the histogram's buckets.")
    ] = 2.0,
    ttft_share: Annotated[float, typer.Option(help="Share of requests that the promise holds for.")] = 0.95,
    datasource_uid: Annotated[
        str, typer.Option(help="Uid of the data source that Grafana-managed alerts ask.")
    ] = "prometheus",
    grafana_url: Annotated[
        str, typer.Option(help="Address of your Grafana; alerts link to boards there.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where a file is stale.")
    ] = False,
) -> None:
    """Write every board and rule file.

    Import the boards in classic/ into any Grafana from 10.4 on, or those in v2/, the same ones, as
    resources into Grafana 12 and later; provision one of the two folders, not both.

    Name tierscope-rules.yaml in Prometheus' rule_files, or apply the PrometheusRule. Whoever wants Grafana to
    evaluate the alerts puts tierscope-grafana-rules.yaml into its provisioning/alerting, and lets Prometheus
    record the series all the same.
    """
    files = dashboard_files(
        choices=RuleChoices(runbooks_url, ttft_seconds, ttft_share, datasource_uid, grafana_url)
    )
    if check:
        refuse_stale(files, output, fix="run `tierscope dashboards build` with the same options")
        return
    written = write(files, output)
    stderr.print(f"{len(files)} files in {output}; {len(written)} were not fresh and are written anew")


@app.command()
def check() -> None:
    """Lint every board, rule, alert and runbook against the metric table."""
    from dashboards.lint import report

    found = list(report.problems(Path(report.__file__).parents[2]))
    if found:
        raise FaultyDashboards(
            f"{len(found)} problem(s) in boards and rules",
            where="\n         ".join(found),
            fix="mend the query, panel, rule or runbook named; nothing generated is edited by hand",
        )
    stderr.print("boards, rules, alerts and runbooks are in order")
