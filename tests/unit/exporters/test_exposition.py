"""Prometheus pages: the same as the reference parser reads, and garbage that costs only itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporters import exposition
from exporters.exposition import SeriesCache, parse_exposition


def read_by_us(page, cache=None):
    found = parse_exposition(page, where="test", cache=cache)
    assert not found.garbage_lines, found.garbage
    pairs = zip(found.series, found.values, strict=True)
    return [(series.name, dict(series.labels), value) for series, value in pairs]


def read_by_the_reference(page):
    """What prometheus_client reads; without types, because it renames counters by them."""
    untyped = "\n".join(line for line in page.split("\n") if not line.startswith("#"))
    families = text_string_to_metric_families(untyped)
    return [(s.name, dict(s.labels), float(s.value)) for family in families for s in family.samples]


def same(ours, reference):
    return len(ours) == len(reference) and all(
        a[:2] == b[:2] and (a[2] == b[2] or (math.isnan(a[2]) and math.isnan(b[2])))
        for a, b in zip(ours, reference, strict=True)
    )


def test_every_captured_page_reads_as_the_reference_reads_it(captures):
    """All recorded pages of vLLM, LMCache and Curvine: same names, labels and values, in the same order."""
    pages = [*captures.rglob("*metrics*.txt"), *captures.rglob("*.prom")]

    assert len(pages) > 15
    for path in pages:
        page = path.read_text("utf-8")
        cache = SeriesCache()
        reference = read_by_the_reference(page)
        assert same(read_by_us(page, cache), reference), path
        assert same(read_by_us(page, cache), reference), f"{path}, read again with a warm cache"


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda n: n[:2] != "__")
label_values = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
values = st.one_of(st.integers(-(10**12), 10**12), st.floats(width=32)).map(float)
gaps = st.sampled_from([" ", "  "])


def escaped(value):
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def lines(draw):
    labels = draw(st.dictionaries(label_names, label_values, max_size=3))
    text = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    comma = "," if text and draw(st.booleans()) else ""
    braces = f"{{{text}{comma}}}" if text or draw(st.booleans()) else ""
    stamp = draw(st.sampled_from(["", "", " 1795957310690", "  -5"]))
    return f"{draw(names)}{braces}{draw(gaps)}{draw(values)!r}{stamp}"


@given(page=st.lists(st.one_of(lines(), st.just(""), st.just("# HELP a b"), st.just("# free comment"))))
def test_generated_pages_read_as_the_reference_reads_them(page):
    """Any labels, escapes, trailing commas, timestamps and special values, cold and warm."""
    text = "\n".join(page)
    cache = SeriesCache()
    reference = read_by_the_reference(text)

    assert same(read_by_us(text, cache), reference)
    assert same(read_by_us(text, cache), reference)


GARBAGE = [
    "name",
    "name 1 2 3",
    "name one",
    "name 1_000",
    'name{a="x"} ',
    'name{a="x} 1',
    "name{a=x} 1",
    'name{a="x" b="y"} 1',
    'name{a="x",a="y"} 1',
    "{} 1",
    "9name 1",
    "<html>",
    'name{a="x"}1x',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_garbage_line_is_counted_and_named_and_the_rest_is_read(garbage):
    """One broken line costs itself; the message has its number and its text."""
    page = parse_exposition(f"before 1\n{garbage}\nafter 2", where="http://engine/metrics")

    assert page.values == [1.0, 2.0]
    assert page.garbage_lines == 1
    assert "line 2 " in page.garbage.what
    assert garbage[:40] in page.garbage.what.encode().decode("unicode_escape")
    assert page.garbage.where == "http://engine/metrics"


def test_garbage_stays_garbage_with_a_warm_cache():
    """A known series with a broken value is not saved by the cache."""
    cache = SeriesCache()
    parse_exposition("known 1", where="test", cache=cache)

    page = parse_exposition("known 1_0\nknown x\nknown 2", where="test", cache=cache)

    assert page.values == [2.0]
    assert page.garbage_lines == 2


def test_only_the_first_garbage_line_is_named():
    """A page of nonsense gives one message, with a count."""
    page = parse_exposition("\n".join(["good 1", *["bad"] * 500]), where="test")

    assert page.garbage_lines == 500
    assert "line 2 " in page.garbage.what


def test_bytes_that_are_no_text_are_garbage_lines():
    """A label that is not UTF-8 spoils its own line."""
    page = parse_exposition(b'a{x="\xff"} 1\nb 2\n', where="test")

    assert page.garbage_lines == 1
    assert page.total("b") == 2


def test_a_page_can_be_asked_by_name():
    """Values come by series; a sum over no series is absent, not zero."""
    page = parse_exposition('a{x="1"} 2\na{x="2"} 3\nb 4', where="test")

    assert {series.labels["x"]: value for series, value in page.named("a").items()} == {"1": 2, "2": 3}
    assert page.total("a") == 5
    assert page.total("c") is None


def test_a_series_that_a_page_repeats_counts_once_and_is_named():
    """UD-24: the last value of a repeated series is the one that counts, and the collision is told."""
    page = parse_exposition('a{x="1"} 1\nb 1\na{x="1"} 2', where="http://engine/metrics")

    assert page.total("a") == 2
    assert page.repeated_lines == 1
    assert "a{'x': '1'} 2 times" in page.repeat.what


def test_a_page_without_repeats_says_so():
    """The same name under other labels is no repeat."""
    page = parse_exposition('a{x="1"} 1\na{x="2"} 2', where="test")

    assert (page.repeated_lines, page.repeat) == (0, None)


def test_the_cache_is_bounded(monkeypatch):
    """Labels that never repeat do not fill the memory."""
    monkeypatch.setattr(exposition, "MOST_SERIES", 10)
    cache = SeriesCache()

    page = parse_exposition("\n".join(f'a{{x="{i}"}} 1' for i in range(100)), where="test", cache=cache)

    assert page.total("a") == 100
    assert len(cache.series) <= 10


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_total_of_what_is_no_number_is_not_known(value):
    """One such value costs its own name, and not the page."""
    page = parse_exposition(f'held{{w="1"}} 2\nheld{{w="2"}} {value}\nother 3\n', where="page")

    assert (page.total("held"), page.total("other"), page.total("none")) == (None, 3, None)
