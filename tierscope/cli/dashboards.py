"""`tierscope dashboards`: write Grafana boards and Prometheus rules, or check them."""

from __future__ import annotations

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


def dashboard_files(folder: str = "", *, runbooks_url: str = RUNBOOKS) -> tuple[Generated, ...]:
    """Every board and rule file; `folder`, ending in a slash, goes before their names."""
    from dashboards.boards import BOARDS
    from dashboards.rules.render import prometheus_rule, rule_file

    boards = (Generated(f"{folder}{uid}.json", render) for uid, render in sorted(BOARDS.items()))
    return (
        *boards,
        Generated(
            f"{folder}tierscope-prometheusrule.yaml", lambda: prometheus_rule(runbooks_url=runbooks_url)
        ),
        Generated(f"{folder}tierscope-rules.yaml", lambda: rule_file(runbooks_url=runbooks_url)),
    )


@app.command()
def build(
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("dashboards/generated"),
    runbooks_url: Annotated[
        str, typer.Option(help="Address under which your people find the runbooks; alerts link to it.")
    ] = RUNBOOKS,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where a file is stale.")
    ] = False,
) -> None:
    """Write every board (import it into Grafana) and rule file (name it in Prometheus' rule_files)."""
    files = dashboard_files(runbooks_url=runbooks_url)
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
