"""`tierscope generate`: every checked-in file that is made from a table, in one list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tierscope.cli.generated import Generated, refuse_stale, write
from tierscope.cli.output import stderr
from tierscope.domain.errors import BadInput


def generated_files() -> tuple[Generated, ...]:
    """Every generated file; a new one is a line here. What needs a heavy room imports it in here."""
    from tierscope.advice.schema import recommendation_schema_file
    from tierscope.cli import reference, reference_api
    from tierscope.cli.dashboards import dashboard_files
    from tierscope.storage.reference import store_page

    return (
        *dashboard_files("dashboards/generated/"),
        Generated("docs/reference/api.md", reference_api.api_page),
        Generated("docs/reference/findings.md", reference_api.findings_page),
        Generated("docs/reference/metrics.md", reference.metrics_page),
        Generated("docs/reference/recommendation.schema.json", recommendation_schema_file),
        Generated("docs/reference/rules.md", reference.rules_page),
        Generated("docs/reference/settings.md", reference.settings_page),
        Generated("docs/reference/spans.md", reference.spans_page),
        Generated("docs/reference/store.md", store_page),
    )


def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where a file is stale.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The checkout.")] = Path(),
) -> None:
    """Write every generated file of a checkout, or check that each is fresh."""
    if not (root / "pyproject.toml").is_file():
        raise BadInput(
            f"{root.resolve()} is not a checkout: it has no pyproject.toml",
            where="--root",
            fix="run this in the root of the checkout, or name it with --root",
        )
    files = generated_files()
    if check:
        refuse_stale(files, root, fix="run `make generate` and look at the diff")
    else:
        written = write(files, root)
        stderr.print(f"{len(files)} generated files; {len(written)} were not fresh and are written anew")
