"""What a master's settings say of what leaves the pool."""

from __future__ import annotations

import json

import pytest

from exporters.curvine.config import parse_config
from tierscope.domain.errors import SourceUnreadable

MIB = 1024 * 1024


def rules(client, **master):
    return parse_config(json.dumps({"client": client, "master": master}).encode(), where="config")


def test_the_derived_settings_remove_nothing(captures):
    """The defaults of the project: no TTL, no action, no eviction; blocks of 64 MB as the chart sets them."""
    found = parse_config((captures / "curvine" / "api-config.derived.json").read_bytes(), where="config")

    assert (found.ttl_seconds, found.ttl_action, found.watermarks) == (0, "none", None)
    assert found.block_bytes == 64 * MIB
    assert not found.removes


@pytest.mark.parametrize(
    ("client", "seconds"),
    [
        ({"ttl_ms_str": "7d"}, 604_800),
        ({"ttl_ms_str": "90m"}, 5_400),
        ({"ttl_ms_str": "500ms"}, 0.5),
        ({"ttl_ms_str": "60000"}, 60),
        ({"ttl_ms": 60_000}, 60),
        ({"ttl_ms": "2h"}, 7_200),
    ],
)
def test_a_time_is_read_however_it_is_written(client, seconds):
    """A number alone is in milliseconds; the text a person set goes before the number made of it."""
    assert rules(client).ttl_seconds == seconds


@pytest.mark.parametrize(("size", "size_bytes"), [("128MB", 128 * MIB), ("1GiB", 1024 * MIB), (4096, 4096)])
def test_a_block_size_is_binary_whatever_its_letters(size, size_bytes):
    """As Curvine counts them."""
    assert rules({"block_size": size}).block_bytes == size_bytes


@pytest.mark.parametrize(
    ("client", "removes"),
    [
        ({"ttl_ms_str": "1d", "ttl_action_str": "delete"}, True),
        ({"ttl_ms_str": "1d", "ttl_action_str": "free"}, False),
        ({"ttl_ms_str": "1d", "ttl_action_str": "none"}, False),
        ({"ttl_ms_str": "0", "ttl_action_str": "delete"}, False),
    ],
)
def test_only_a_ttl_that_deletes_removes_anything(client, removes):
    """Quota eviction changes nothing about it: it leaves files alone whose TTL is not over."""
    assert rules(client, enable_quota_eviction=True).removes is removes


def test_watermarks_are_those_of_an_eviction_that_is_on():
    """Off, or only pretending, there are none."""
    assert rules({}, enable_quota_eviction=True).watermarks == (0.8, 0.6)
    assert rules({}, enable_quota_eviction=True, quota_eviction_dry_run=True).watermarks is None
    assert rules({}).watermarks is None


def test_a_quantity_nobody_knows_is_named():
    """With its setting and what it was."""
    with pytest.raises(SourceUnreadable, match="ttl_ms is 'soon'"):
        rules({"ttl_ms_str": "soon"})
