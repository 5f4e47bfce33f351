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


@pytest.mark.parametrize("command", sorted({command for _, command in documented() if TESTS.match(command)}))
def test_a_command_that_runs_tests_names_tests_that_are_there(command):
    """Files that were renamed are found here."""
    assert [path for path in re.findall(r"tests/[\w/]+\.py", command) if not (ROOT / path).exists()] == []


def test_what_make_runs_is_what_ci_and_other_tests_run():
    """`make check` is a step of CI; the demo is the command that tests/integration/test_demo.py runs."""
    script, makefile = ((ROOT / name).read_text("utf-8") for name in (".ci/run", "Makefile"))

    assert sorted(CI) == ["make check", "make demo"]
    assert "suite check" in script
    assert re.search(r"^demo:.*\n\t@\$\(BIN\)/tierscope demo ", makefile, re.MULTILINE)
