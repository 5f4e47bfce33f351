"""Settings of the probe: what wins, and what is said of nonsense."""

from __future__ import annotations

import re

import pytest

from tierscope_probe.settings import NAMES, ProbeSettings, at_rank, read_settings


def test_nothing_set_is_the_default():
    """An engine without any setting of ours observes, on the default addresses."""
    assert read_settings({}, {}) == ProbeSettings()


@pytest.mark.parametrize("text", ["0", "false", "OFF", "no"])
def test_one_setting_switches_off(text):
    """TIERSCOPE_PROBE=0 wins over whatever the connector's configuration says."""
    settings = read_settings({"tierscope": {"endpoint": "tcp://*:1"}}, {"TIERSCOPE_PROBE": text})

    assert not settings.enabled


def test_the_connectors_configuration_wins_over_the_environment():
    """The nearer setting holds; what only the environment says holds too."""
    extra = {"tierscope": {"endpoint": "ipc:///a"}, "cpu_bytes_to_use": 1}
    environ = {"TIERSCOPE_PROBE_ENDPOINT": "ipc:///b", "TIERSCOPE_PROBE_RING_BYTES": "1000"}

    settings = read_settings(extra, environ)

    assert (settings.endpoint, settings.ring_bytes, settings.problems) == ("ipc:///a", 1000, ())


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"tierscope": {"ring_bytes": "many"}}, "ring_bytes: 'many'"),
        ({"tierscope": {"queue_records": 0}}, "queue_records: 0"),
        ({"tierscope": {"endpoint": 5}}, "endpoint: 5"),
        ({"tierscope": {"ring_byte": 5}}, "ring_byte: not a setting"),
        ({"tierscope": "on"}, "tierscope: 'on'"),
    ],
)
def test_nonsense_is_named_and_stays_at_its_default(extra, named):
    """A setting that is not understood stops neither the engine nor the other settings."""
    settings = read_settings(extra, {"TIERSCOPE_PROBE_ADDRESS_FILE": "here"})

    assert [problem for problem in settings.problems if problem.startswith(named)]
    assert settings == ProbeSettings(address_file="here", problems=settings.problems)


@pytest.mark.parametrize(
    ("endpoint", "rank", "there"),
    [
        ("tcp://*:5757", 0, "tcp://*:5757"),
        ("tcp://*:5757", 3, "tcp://*:5760"),
        ("tcp://127.0.0.1:0", 3, "tcp://127.0.0.1:0"),
        ("tcp://127.0.0.1:*", 3, "tcp://127.0.0.1:*"),
        ("ipc:///run/probe", 3, "ipc:///run/probe.rank3"),
    ],
)
def test_every_rank_has_an_address_of_its_own(endpoint, rank, there):
    """Data-parallel ranks of one pod share the setting, not the port."""
    assert at_rank(endpoint, rank) == there


def test_every_setting_is_documented(repository):
    """The README's table lists the settings there are."""
    readme = (repository / "exporters" / "probe" / "README.md").read_text("utf-8")

    listed = re.findall(r"^\| `(\w+)` \|", readme.split("## Settings")[1].split("## ")[0], re.MULTILINE)

    assert listed == list(NAMES)
