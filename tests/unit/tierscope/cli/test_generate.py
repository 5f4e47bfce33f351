"""Generated files are written from one list and checked against it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tierscope.cli.generate import generated_files
from tierscope.cli.generated import Generated, StaleFiles, refuse_stale, stale, write
from tierscope.cli.main import app
from tierscope.domain.errors import BadInput

FILES = (Generated("a/one.md", lambda: "one\n"), Generated("two.md", lambda: "zwei\n"))


def test_the_checkout_is_fresh(repository):
    """What is checked in is what the tables say now."""
    assert stale(generated_files(), repository) == []


def test_rendering_is_stable():
    """Two renderings are byte for byte the same, so a diff is always a change."""
    assert [file.render() for file in generated_files()] == [file.render() for file in generated_files()]


def test_paths_are_relative_unique_and_sorted():
    """One line a file, in order, so that two who add one do not collide at the end."""
    paths = [file.path for file in generated_files()]

    assert paths == sorted(set(paths))
    assert not any(path.startswith(("/", ".")) for path in paths)


def test_only_what_is_not_fresh_is_written(tmp_path):
    """A second run touches nothing."""
    assert write(FILES, tmp_path) == ["a/one.md", "two.md"]
    (tmp_path / "two.md").write_text("edited by hand\n")

    assert stale(FILES, tmp_path) == ["two.md"]
    assert write(FILES, tmp_path) == ["two.md"]
    assert write(FILES, tmp_path) == []
    assert (tmp_path / "two.md").read_bytes() == b"zwei\n"


def test_a_check_names_every_stale_file(tmp_path):
    """Missing and edited files are told together, with what to do."""
    write(FILES[:1], tmp_path)
    (tmp_path / "a/one.md").write_text("edited by hand\n")

    with pytest.raises(StaleFiles) as refused:
        refuse_stale(FILES, tmp_path, fix="mend it")

    assert refused.value.where == "a/one.md, two.md"
    assert refused.value.exit_status == 1


def test_generate_check_writes_nothing_and_fails_on_a_stale_checkout(tmp_path):
    """The command refuses a checkout whose files are missing, and leaves it as it was."""
    (tmp_path / "pyproject.toml").touch()

    result = CliRunner().invoke(app, ["generate", "--check", "--root", str(tmp_path)])

    assert isinstance(result.exception, StaleFiles)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_generate_makes_a_checkout_fresh(tmp_path):
    """After `generate`, `generate --check` passes."""
    (tmp_path / "pyproject.toml").touch()
    runner = CliRunner()

    assert runner.invoke(app, ["generate", "--root", str(tmp_path)]).exit_code == 0
    assert runner.invoke(app, ["generate", "--check", "--root", str(tmp_path)]).exit_code == 0


def test_generate_refuses_a_folder_that_is_no_checkout(tmp_path):
    """It writes docs/ and dashboards/ only where a project stands."""
    result = CliRunner().invoke(app, ["generate", "--root", str(tmp_path)])

    assert isinstance(result.exception, BadInput)
    assert list(tmp_path.iterdir()) == []
