"""`tierscope generate`: every checked-in file that is made from a table, in one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tierscope.cli.output import stderr
from tierscope.domain.errors import BadInput, TierscopeError


class StaleFiles(TierscopeError):
    """Generated files that are not what their tables say."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A checked-in file that no one edits: its path under the checkout, and what makes its text."""

    path: str
    render: Callable[[], str]


def generated_files() -> tuple[Generated, ...]:
    """Every generated file; a new one is a line here. What needs a heavy room imports it in here."""
    from tierscope.advice.schema import recommendation_schema_file
    from tierscope.cli import reference
    from tierscope.cli.dashboards import dashboard_files
    from tierscope.storage.reference import store_page

    return (
        *dashboard_files("dashboards/generated/"),
        Generated("docs/reference/metrics.md", reference.metrics_page),
        Generated("docs/reference/recommendation.schema.json", recommendation_schema_file),
        Generated("docs/reference/rules.md", reference.rules_page),
        Generated("docs/reference/settings.md", reference.settings_page),
        Generated("docs/reference/spans.md", reference.spans_page),
        Generated("docs/reference/store.md", store_page),
    )


def stale(files: Iterable[Generated], root: Path) -> list[str]:
    """Paths whose text under `root` is missing or differs from what is rendered now."""
    return [file.path for file in files if _text(root / file.path) != file.render()]


def write(files: Iterable[Generated], root: Path) -> list[str]:
    """Write under `root` what is missing or differs; returns the paths written."""
    written = []
    for file in files:
        text, path = file.render(), root / file.path
        if _text(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            written.append(file.path)
    return written


def refuse_stale(files: Iterable[Generated], root: Path, *, fix: str) -> None:
    """Raise `StaleFiles` naming every file that is not fresh."""
    paths = stale(files, root)
    if paths:
        raise StaleFiles(f"{len(paths)} generated file(s) are stale", where=", ".join(paths), fix=fix)


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


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
