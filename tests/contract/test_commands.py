"""Every command that the documentation shows is executed by a test, or named with what it wants."""

from __future__ import annotations

import re

import pytest

from tests.documented_commands import CI, EXECUTED, ROOT, TESTS, WANTS, documented

KNOWN = {*EXECUTED, *CI, *(command for commands in WANTS.values() for command in commands)}


def test_no_command_is_left_out():
    """A new one is executed in tests/integration/test_documented_commands.py, or its want is said."""
    unknown = [
        f"{page.relative_to(ROOT)}: {command}"
        for page, command in documented()
        if command not in KNOWN and not TESTS.match(command)
    ]

    assert unknown == []


def test_no_command_is_known_that_no_page_shows():
    """What is executed is what is documented."""
    assert sorted(KNOWN - {command for _, command in documented()}) == []


PATH = re.compile(r"tests/[\w/]+\.py")
NAMED = {
    command: paths for _, command in documented() if TESTS.match(command) and (paths := PATH.findall(command))
}
"""Files of tests, by the command that names them."""


@pytest.mark.parametrize("command", sorted(NAMED))
def test_a_command_that_runs_tests_names_tests_that_are_there(command):
    """Files that were renamed are found here."""
    assert [path for path in NAMED[command] if not (ROOT / path).exists()] == []


def test_commands_that_name_tests_are_found():
    """So that the test above has something to look at: all that the page of measurements names."""
    page = (ROOT / "docs/measurements.md").read_text("utf-8")
    commands = re.findall(r"^    .*", page, re.MULTILINE)
    shown = {path for command in commands for path in PATH.findall(command) if "/test_" in path}

    assert shown
    assert shown <= {path for paths in NAMED.values() for path in paths}


def test_what_make_runs_is_what_ci_and_other_tests_run():
    """`make check` is a step of CI; the demo is the command that tests/integration/test_demo.py runs."""
    script, makefile = ((ROOT / name).read_text("utf-8") for name in (".ci/run", "Makefile"))

    assert sorted(CI) == ["make check", "make demo"]
    assert "suite check" in script
    assert re.search(r"^demo:.*\n\t@\$\(BIN\)/tierscope demo ", makefile, re.MULTILINE)
