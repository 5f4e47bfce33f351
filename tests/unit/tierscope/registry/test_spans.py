"""The rules of the span table."""

from __future__ import annotations

import re

import pytest

from tierscope.domain.tiers import Origin
from tierscope.registry import spans
from tierscope.registry.spans import SPANS
from tierscope.registry.types import SpanAttribute

each_span = pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)


@each_span
def test_attribute_keys_are_namespaced_once(span):
    """Keys are dotted, in our namespace or OpenTelemetry's for generative AI, and unique in a span."""
    keys = [attribute.key for attribute in span.attributes]

    assert all(re.fullmatch(r"(tierscope|gen_ai)(\.[a-z][a-z0-9_]*)+", key) for key in keys)
    assert len(set(keys)) == len(keys)


@each_span
def test_a_span_and_its_attributes_are_documented(span):
    """Every help is a sentence."""
    assert span.help.endswith(".")
    assert all(attribute.help.endswith(".") for attribute in span.attributes)


@each_span
def test_durations_are_seconds_as_floats(span):
    """A key that ends in a unit of time ends in `_seconds` and is a float."""
    for attribute in span.attributes:
        assert not re.search(r"_(ms|us|ns|minutes)$", attribute.key)
        assert attribute.key.endswith("_seconds") <= (attribute.value_type is float)


def test_every_attribute_is_used():
    """No attribute is declared that no span carries."""
    declared = {value for value in vars(spans).values() if isinstance(value, SpanAttribute)}

    assert declared == {attribute for span in SPANS for attribute in span.attributes}


def test_a_lookup_span_carries_the_whole_split():
    """The prompt and each of its five origins stand on the span, so that a trace shows conservation."""
    keys = {attribute.key for attribute in spans.KV_LOOKUP.attributes}

    assert {f"tierscope.tokens.{name}" for name in ("prompt", *Origin)} <= keys
