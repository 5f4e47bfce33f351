"""One error type that says what, where and how to fix it."""

from __future__ import annotations

import pytest

from tierscope.domain.errors import BadInput, BadSettings, TierscopeError


def test_an_error_prints_what_where_and_fix():
    """The command line shows three lines, a log one."""
    error = BadInput("tier 'l3' is not known", where="config.yaml, sources[2].tier", fix="use l0, l1 or l2")

    assert str(error).splitlines() == [
        "tier 'l3' is not known",
        "  where: config.yaml, sources[2].tier",
        "  fix:   use l0, l1 or l2",
    ]
    assert error.one_line() == (
        "tier 'l3' is not known (where: config.yaml, sources[2].tier; fix: use l0, l1 or l2)"
    )
    assert error.exit_status == 1


def test_settings_list_every_problem():
    """Who has three mistakes sees three, and the command says wrong usage."""
    problems = [
        TierscopeError(f"{name} is wrong", where=name, fix="mend it") for name in ("one", "two", "three")
    ]
    error = BadSettings(problems)

    assert [line for line in str(error).splitlines() if "is wrong" in line] == [
        "one is wrong", "two is wrong", "three is wrong",
    ]  # fmt: skip
    assert error.what == "3 settings cannot be used"
    assert error.exit_status == 2


def test_one_problem_is_told_as_itself():
    """No count of one."""
    error = BadSettings(
        [TierscopeError("port 70000 is not a port", where="api.listen_port", fix="below 65536")]
    )

    assert error.what == "port 70000 is not a port"
    assert str(error).startswith("port 70000 is not a port\n  where: api.listen_port")


def test_no_problem_is_no_error():
    """An empty refusal is a fault of the caller."""
    with pytest.raises(ValueError, match="at least one"):
        BadSettings([])
