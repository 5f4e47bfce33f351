"""The `tierscope` command: one sub-command a file, and the one place errors become exit statuses.

Command modules import their heavy rooms inside the command function, so that `tierscope --help` and
short commands stay fast.
"""

from __future__ import annotations

import sys

import typer

from tierscope.cli import dashboards, store
from tierscope.cli.apply import apply
from tierscope.cli.bench import bench
from tierscope.cli.collect import collect
from tierscope.cli.curve import curve
from tierscope.cli.demo import demo
from tierscope.cli.doctor import doctor
from tierscope.cli.export import export
from tierscope.cli.feed_keys import feed_keys
from tierscope.cli.generate import generate
from tierscope.cli.holdout import holdout
from tierscope.cli.measure import measure
from tierscope.cli.output import open_closed_streams, print_error
from tierscope.cli.plan import plan
from tierscope.cli.recommend import recommend
from tierscope.cli.regress import regress
from tierscope.cli.report import report
from tierscope.cli.serve import serve
from tierscope.cli.simulate import simulate
from tierscope.domain.errors import TierscopeError

app = typer.Typer(
    name="tierscope",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    demo,
    export,
    collect,
    serve,
    recommend,
    report,
    apply,
    doctor,
    regress,
    curve,
    holdout,
    simulate,
    bench,
    measure,
    plan,
    feed_keys,
)
for command in COMMANDS:
    app.command()(command)
app.command(hidden=True)(generate)
app.add_typer(dashboards.app, name="dashboards")
app.add_typer(store.app, name="store")


@app.callback()
def tierscope() -> None:
    """See which KV-cache tier served each token, why the rest was computed, and what to change."""


def run() -> None:
    """Run the command line; errors a person can act on go to stderr, exit status 1 (2 for wrong usage)."""
    open_closed_streams()
    try:
        app()
    except TierscopeError as error:
        print_error(error)
        sys.exit(error.exit_status)
