"""Ports that tests are given are theirs until they bind them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ports

CLAIM = "import sys; from tests import ports; print(ports._CLAIMS.claim(int(sys.argv[1])))"


def claimed_elsewhere(port):
    """Whether another process is given it."""
    run = subprocess.run(
        [sys.executable, "-c", CLAIM, str(port)], capture_output=True, text=True, check=True,
        cwd=Path(ports.__file__).parents[1],
    )  # fmt: skip
    return run.stdout == "True\n"


def test_a_port_is_given_once_on_a_machine():
    """Neither here nor to another process; nor does the system give it to anyone, where it leaves room."""
    port = ports.free_port()
    lowest, highest = ports.systems_range()

    assert not ports._CLAIMS.claim(port)
    assert not claimed_elsewhere(port)
    assert port in ports.GIVEN.ports
    assert ports.GIVEN.shared or not lowest <= port <= highest
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", port))


def test_neighbours_are_all_free(monkeypatch):
    """Of five in a row with one that is taken none is given."""
    first = ports.free_ports(5)
    assert [ports._CLAIMS.claim(port) for port in range(first, first + 5)] == [False] * 5

    monkeypatch.setattr(ports, "_is_free", lambda port: port % 2 == 0)
    monkeypatch.setattr(ports, "MOST_TRIES", 20)
    assert ports.free_port() % 2 == 0
    with pytest.raises(AssertionError, match="no 2 neighbouring"):
        ports.free_ports(2)


@pytest.mark.parametrize(
    ("systems", "given"),
    [
        ((32_768, 60_999), range(15_000, 32_768)),
        ((49_152, 65_535), range(15_000, 49_152)),
        ((16_000, 65_535), range(15_000, 16_000)),
        ((15_500, 60_999), range(61_000, 65_536)),
        ((1_024, 60_000), range(60_001, 65_536)),
        ((10_240, 65_535), range(1_024, 10_240)),
    ],
)
def test_given_ports_lie_apart_from_the_systems(systems, given):
    """Wherever it leaves room; below its own, and away from those of many servers, if it can be."""
    assert ports.ports_beside(*systems) == (given, False)
    assert ports.said_of_sharing(ports.ports_beside(*systems)) == []
    assert not set(given) & set(range(systems[0], systems[1] + 1))


@pytest.mark.parametrize("systems", [(1_024, 65_535), (1_500, 65_000)])
def test_where_the_system_leaves_no_room_ports_are_shared_with_it_and_that_is_said(systems):
    """Tests run all the same."""
    given = ports.ports_beside(*systems)

    assert given.shared
    assert len(given.ports) >= ports.ENOUGH
    assert "may be taken" in ports.said_of_sharing(given)[0]


def test_a_system_that_does_not_tell_its_range_has_that_of_the_standard(monkeypatch, tmp_path):
    """As on machines without /proc."""
    monkeypatch.setattr(ports, "SYSTEMS_RANGE", tmp_path / "none")
    assert ports.systems_range() == ports.SYSTEMS_BY_STANDARD
