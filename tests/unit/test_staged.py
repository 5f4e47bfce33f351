"""How systems of tests are put together: what started is ended, and Prometheus is as deploy/ ships it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.prometheus_server import SHIPPED, shipped_configuration
from tests.staged import Staged, feed_of, feed_to_be


class Three(Staged):
    """Three parts, of which one may not start."""

    def __init__(self, fails: int | None = None) -> None:
        self.fails = fails
        self.told: list[str] = []

    def _start(self, opened: ExitStack) -> None:
        for number in range(3):
            if number == self.fails:
                raise OSError(number)
            self.told.append(f"started {number}")
            opened.callback(self.told.append, f"ended {number}")


def test_parts_end_in_the_opposite_order():
    """Not before the body has ended."""
    with Three() as running:
        assert running.told == ["started 0", "started 1", "started 2"]

    assert running.told[3:] == ["ended 2", "ended 1", "ended 0"]


def test_parts_that_had_started_end_where_a_later_one_does_not_start():
    """And the reason is told."""
    failing = Three(fails=2)
    with pytest.raises(OSError, match="2"), failing:
        raise AssertionError("entered")

    assert failing.told == ["started 0", "started 1", "ended 1", "ended 0"]


def test_feeds_have_addresses_of_their_own():
    """What is announced is taken as it is; what is to be has ports that nobody else is given."""
    first, second = feed_to_be("a"), feed_to_be("b")
    announced = {"feed_endpoint": first.endpoint, "feed_replay_endpoint": first.replay_endpoint}

    assert feed_of("a", announced) == first
    assert len({one for feed in (first, second) for one in (feed.endpoint, feed.replay_endpoint)}) == 4


def test_prometheus_scrapes_as_shipped():
    """Pages and times are a test's; rules, and how labels are honoured, are those of deploy/."""
    shipped = yaml.safe_load(SHIPPED.read_text("utf-8"))

    found = shipped_configuration("http://a:1/metrics", "http://b:2/metrics", scrape_seconds=2)

    [ours], [theirs] = found["scrape_configs"], shipped["scrape_configs"]
    assert [one["targets"] for one in ours["static_configs"]] == [["a:1", "b:2"]]
    assert {k: v for k, v in ours.items() if k != "static_configs"} == {
        k: v for k, v in theirs.items() if k != "static_configs"
    }
    assert ours["honor_labels"]
    assert found["rule_files"]
    assert all(Path(name).is_file() for name in found["rule_files"])
    assert set(found["global"].values()) == {"2s"}
    assert "alerting" not in found


def test_an_alertmanager_is_put_in_the_place_of_the_shipped_one():
    """And times that nobody asked for are the shipped ones."""
    found = shipped_configuration("http://a:1/metrics", alertmanager="c:3")

    assert found["alerting"]["alertmanagers"][0]["static_configs"] == [{"targets": ["c:3"]}]
    assert found["global"] == yaml.safe_load(SHIPPED.read_text("utf-8"))["global"]
