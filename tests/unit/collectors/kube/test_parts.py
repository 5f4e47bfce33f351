"""Small readers of what Kubernetes objects hold: quantities, command lines, sizes, and objects as such."""

from __future__ import annotations

import doctest

import pytest

from collectors.kube import pools, quantity
from collectors.kube.cache_config import cache_config
from collectors.kube.client import _document
from collectors.kube.engine_args import engine_arguments
from collectors.kube.state import cluster_of
from tierscope.domain import command_line
from tierscope.domain.command_line import options_of, words_of
from tierscope.domain.errors import BadInput, SourceUnreadable


@pytest.mark.parametrize("module", [quantity, pools, command_line])
def test_examples_in_docstrings_hold(module):
    """What the docstrings show is what happens."""
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1Ki", 1024),
        ("1.5Gi", 1.5 * 2**30),
        ("2e3", 2000),
        ("1E", 1e18),
        (7, 7),
        (None, None),
        ("x", None),
        ("", None),
        ("1e999", None),
        (10**400, None),
        (5000 * "9", None),
    ],
)
def test_quantities_are_numbers(text, number):
    """Binary and decimal suffixes, exponents, plain numbers; what is none is none."""
    assert quantity.quantity(text) == number


def test_a_shells_command_line_is_read_as_the_shell_would():
    """Images that start vLLM through a shell hide its arguments in one word."""
    words = words_of(["/bin/bash", "-c"], ["exec vllm serve m --max_model_len 8192 --kv-cache-dtype 'fp8'"])

    assert engine_arguments(words).max_model_len == 8192
    assert engine_arguments(words).cache_dtype == "fp8"
    assert words_of(["sh", "-c"], ["echo 'open"]) == ["sh", "-c", "echo 'open"]


def test_options_that_are_no_numbers_are_not_told():
    """A placeholder the operator fills in later must not become a number."""
    options = options_of(["--max-model-len", "$(LENGTH)", "--gpu-memory-utilization", "0.9", "--empty"])

    assert options.whole("max-model-len") is None
    assert options.number("gpu-memory-utilization") == 0.9
    assert options.document("empty") == {}


@pytest.mark.parametrize(
    "text", ["nan", "inf", "1e999", "9" * 5000, "[" * 100_000, ""], ids=lambda text: text[:5]
)
def test_what_can_be_no_number_and_no_document_is_not_told(text):
    """Whoever may make a pod writes what he likes into it: nobody else's pods go unread for it."""
    options = options_of(["--max-model-len", text])
    inside = cache_config({"LMCACHE_CHUNK_SIZE": text, "LMCACHE_MAX_LOCAL_CPU_SIZE": text}, f"a: {text}")

    assert (options.whole("max-model-len"), options.number("max-model-len")) == (None, None)
    assert options.document("max-model-len") == {}
    assert inside == cache_config({}, None)
    assert pools.size_bytes(text) is None


def test_half_a_character_is_refused_as_what_is_no_object():
    """JSON can have it as the name of a field, and text cannot."""
    for name in ("\ud800", "\udfff!"):
        pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n", name: "a"}}
        with pytest.raises(BadInput, match="Pod cannot be read"):
            cluster_of([pod], "the API")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff", b"[" * 100_000], ids=["", "html", "no text", "deep"]
)
def test_an_answer_that_is_no_document_is_refused(body):
    """By the one error that a watch gets over."""
    with pytest.raises(SourceUnreadable, match="not JSON"):
        _document(body, "the API")


def test_lists_and_kinds_we_do_not_read_are_passed_over():
    """`kubectl get` writes lists; other kinds, empty documents and nulls in objects do no harm."""
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": None}}
    cluster = cluster_of([None, {"kind": "List", "items": [pod, {"kind": "Secret"}, "odd"]}], "file")

    assert [one.metadata.name for one in cluster.pods] == ["p"]


def test_an_object_of_a_known_kind_that_is_none_is_named():
    """The field that is not right is in the message."""
    with pytest.raises(BadInput, match=r"Deployment cannot be read.*replicas"):
        cluster_of([{"kind": "Deployment", "metadata": {}, "spec": {"replicas": "two"}}], "file.yaml")


def test_a_connector_is_the_one_that_the_probe_is_around():
    """So that LMCache in an engine is seen with the probe as without it."""
    told = '{"kv_connector": "ObservingLMCacheConnectorV1", "kv_role": "kv_both"}'

    assert engine_arguments(["--kv-transfer-config", told]).connector == "LMCacheConnectorV1"
