"""Pages print numbers and labels as the two client libraries do."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tierscope.testbed.wire.exposition import Exposition


def test_a_page_reads_back_as_what_was_put_in():
    """Prometheus' own parser finds every family, label and value."""
    page = Exposition(floats=True)
    page.family("hits_total", "counter", "Hits.", [({"b": "2", "a": "1"}, 12), ({"a": "2", "b": ""}, 0.5)])
    page.histogram("wait_seconds", "Waits.", {"a": "1"}, edges=(0.1, 1.0), counts=(2, 0, 1), total=3.5)

    families = {family.name: family for family in text_string_to_metric_families(page.page().decode())}

    assert [(sample.labels, sample.value) for sample in families["hits"].samples] == [
        ({"a": "1", "b": "2"}, 12.0),
        ({"a": "2", "b": ""}, 0.5),
    ]
    waits = {
        (sample.name, sample.labels.get("le")): sample.value for sample in families["wait_seconds"].samples
    }
    assert waits == {
        ("wait_seconds_bucket", "0.1"): 2.0,
        ("wait_seconds_bucket", "1.0"): 2.0,
        ("wait_seconds_bucket", "+Inf"): 3.0,
        ("wait_seconds_count", None): 3.0,
        ("wait_seconds_sum", None): 3.5,
    }


def test_whole_numbers_print_as_their_library_prints_them():
    """Python's client writes 12.0, the Rust one 12; labels stand in the order of their names."""

    def line(*, floats: bool) -> str:
        page = Exposition(floats=floats)
        page.family("files", "gauge", "Files.", [({"z": "1", "a": "2"}, 12)])
        return page.page().decode().splitlines()[-1]

    assert line(floats=True) == 'files{a="2",z="1"} 12.0'
    assert line(floats=False) == 'files{a="2",z="1"} 12'
