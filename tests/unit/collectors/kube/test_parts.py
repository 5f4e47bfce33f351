"""Small readers of what Kubernetes objects hold: quantities, command lines, sizes, and objects as such."""

from __future__ import annotations

import doctest

import pytest

from collectors.kube import pools, quantity
from collectors.kube.engine_args import engine_arguments
from collectors.kube.state import cluster_of
from tierscope.domain import command_line
from tierscope.domain.command_line import options_of, words_of
from tierscope.domain.errors import BadInput


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
