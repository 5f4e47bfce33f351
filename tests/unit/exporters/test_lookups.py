"""Lookups that wait for their admissions."""

from __future__ import annotations

from exporters.lookups import Lookups
from tests.admitted import wanted
from tierscope.domain.requests import CacheLookup, TierLoad
from tierscope.domain.tiers import Tier


def test_only_so_many_requests_are_remembered_the_oldest_forgotten_first():
    """Most requests load nothing, and nobody asks for their lookups."""
    lookups = Lookups(most_requests=2)
    for name in "abc":
        lookups.answered(name, 0, CacheLookup("server", 1.0, 64, 64))

    assert [lookups.take(wanted(name, 0)) is not None for name in "abc"] == [False, True, True]


def test_a_lookup_is_taken_once():
    """A record that comes twice finds nothing the second time; another admission's stays."""
    lookups = Lookups()
    for number in (0, 1):
        lookups.answered("r", number, CacheLookup("server", 1.0 + number, 64, 0))

    assert lookups.take(wanted("r", 0)) is not None
    assert lookups.take(wanted("r", 0)) is None
    assert lookups.take(wanted("r", 1)) is not None


def test_each_lookup_has_the_loads_made_for_it():
    """Also when all of a request's lookups were told before its first admission was."""
    lookups = Lookups()
    for number, start in enumerate((1.0, 3.0)):
        lookups.loaded("r", TierLoad(Tier.L2, start + 0.5, start + 0.1))
        lookups.answered("r", number, CacheLookup("server", start + 0.6, 64, 0, start))
        lookups.loaded("r", TierLoad(Tier.L1, start + 0.9, start + 0.7))

    ends = [
        [load.ended_unix_seconds for load in lookups.take(wanted("r", number)).loads] for number in (0, 1)
    ]

    assert ends == [[1.5, 1.9], [3.5, 3.9]]
