"""Which tier served which tokens of one admission."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.attribution import loaded_from, served_from, split_admission
from exporters.vllm.hook import Admit
from tierscope.domain.errors import BadInput
from tierscope.domain.requests import CacheLookup, ExternalReason, TokenSplit
from tierscope.domain.tiers import Origin


def admit(**fields):
    return Admit(**{"ts": 1.0, "rid": "r", "prompt": 1000} | fields)


def test_l0_is_credited_first_and_loads_only_beyond_it():
    """UD-01: 600 in L0, 200 through the connector from host memory, the rest computed."""
    tokens, reason = split_admission(admit(local=600, external=200, split={"host": 200}))

    assert tokens == TokenSplit(1000, l0=600, l1=200, computed=200)
    assert reason is None


@pytest.mark.parametrize(("local", "found"), [(320, 512), (512, 512), (640, 512)])
def test_where_l0_and_l1_hold_the_same_prefix_l0_has_the_credit(local, found):
    """UD-09: L1 is credited for what it found beyond L0: 192 tokens, none, and never less than none."""
    loaded = max(0, found - local)

    tokens, _ = split_admission(admit(local=local, external=loaded, split={"host": loaded}))

    assert (tokens.l0, tokens.l1) == (local, loaded)
    assert tokens.computed == 1000 - max(local, found)


def test_a_load_over_two_tiers_is_split_as_told():
    """Host is L1, disk L2; peers and the unspecified are of no known tier."""
    split = {"host": 100, "disk": 50, "p2p": 20, "external_unspecified": 10}

    tokens, reason = split_admission(admit(external=180, split=split))

    assert tokens == TokenSplit(1000, l1=100, l2=50, external=30, computed=820)
    assert reason is ExternalReason.NOT_REPORTED


def test_a_load_without_a_split_is_external_with_its_reason():
    """LMCache's connector does not say which tier served."""
    tokens, reason = split_admission(admit(local=100, external=200))

    assert tokens == TokenSplit(1000, l0=100, external=200, computed=700)
    assert reason is ExternalReason.NOT_REPORTED


def test_a_split_of_more_than_was_loaded_is_not_believed():
    """The scheduler trimmed the load after the connector had answered: which part is not known."""
    tokens, _ = split_admission(admit(external=100, split={"host": 80, "disk": 80}))

    assert (tokens.l1, tokens.l2, tokens.external) == (0, 0, 100)


def test_the_engines_own_numbers_come_before_the_calls_arguments():
    """They are the ones behind its counters: exact below a block, and right under a multi-connector."""
    tokens, _ = split_admission(admit(local=96, external=0, ps=(1000, 100, 32)))

    assert tokens == TokenSplit(1000, l0=100, external=32, computed=868)


def test_a_readmission_fills_what_was_generated_too():
    """Its prompt is all it has to fill again; the engine's numbers are then of the first admission."""
    tokens, _ = split_admission(admit(attempt=1, total=1040, local=1024, ps=(1000, 0, 0)))

    assert tokens == TokenSplit(1040, l0=1024, computed=16)


@pytest.mark.parametrize("fields", [{"local": 1001}, {"local": 600, "external": 600}, {"local": -1}])
def test_parts_that_do_not_add_up_are_refused(fields):
    """More hits than prompt, or fewer than none, is no admission we could count."""
    with pytest.raises(BadInput):
        split_admission(admit(**fields))


@pytest.mark.parametrize(
    ("tokens", "served", "loaded"),
    [
        (TokenSplit(10, computed=10), Origin.COMPUTED, None),
        (TokenSplit(10, l0=1, computed=9), Origin.L0, None),
        (TokenSplit(10, l0=1, l1=1, computed=8), Origin.L1, Origin.L1),
        (TokenSplit(10, l1=1, external=1, computed=8), Origin.EXTERNAL, Origin.EXTERNAL),
        (TokenSplit(10, l0=7, l1=1, l2=1, external=1), Origin.L2, Origin.L2),
    ],
)
def test_a_request_is_served_from_the_outermost_tier(tokens, served, loaded):
    """L2 before external before L1 before L0; only what lies beyond the GPU is waited for."""
    assert served_from(tokens) is served
    assert loaded_from(tokens) is loaded


counts = st.integers(0, 500)


@given(
    prompt=counts,
    local=counts,
    external=counts,
    split=st.none() | st.dictionaries(st.sampled_from(["host", "disk", "p2p", "new"]), counts),
)
def test_whatever_a_record_says_the_parts_are_the_prompt_or_it_is_refused(prompt, local, external, split):
    """Conservation holds for every record that is counted."""
    record = admit(prompt=prompt, local=local, external=external, split=split)
    if local + external > prompt:
        with pytest.raises(BadInput):
            split_admission(record)
        return

    tokens, reason = split_admission(record)

    assert tokens.prompt == prompt
    assert tokens.l0 == local
    assert tokens.l1 + tokens.l2 + tokens.external == external
    assert (tokens.external > 0) == (reason is not None)


@pytest.mark.parametrize(
    ("local", "l1_hit", "hit", "split"),
    [
        pytest.param(64, 128, 256, (64, 64, 128), id="L1 has more than L0"),
        pytest.param(128, 128, 256, (128, 0, 128), id="L1 has what L0 has"),
        pytest.param(192, 128, 256, (192, 0, 64), id="L1 has less than L0"),
        pytest.param(256, 256, 256, (256, 0, 0), id="L0 has all that was found"),
    ],
)
def test_where_tiers_overlap_the_upper_one_is_credited(local, l1_hit, hit, split):
    """UD-09: L0 first, L1 with what it has beyond L0, L2 with what it has beyond both."""
    lookup = CacheLookup("server", 1.0, hit, l1_hit)

    tokens, reason = split_admission(
        Admit(ts=2.0, rid="r", prompt=300, local=local, external=hit - local), lookup
    )

    assert (tokens.l0, tokens.l1, tokens.l2) == split
    assert (tokens.external, reason) == (0, None)


@pytest.mark.parametrize(
    ("told", "split"),
    [
        ({"external_unspecified": 192}, (64, 128, 0)),
        ({"p2p": 192}, (0, 0, 192)),
        ({"host": 192}, (192, 0, 0)),
    ],
)
def test_a_load_of_no_named_tier_goes_by_the_lookup(told, split):
    """What vLLM says of every load of LMCache's connector is no split; one that names a tier is one."""
    lookup = CacheLookup("server", 1.0, hit_tokens=192, l1_hit_tokens=64)

    tokens, _ = split_admission(admit(local=0, external=192, split=told), lookup)

    assert (tokens.l1, tokens.l2, tokens.external) == split


@given(st.data())
def test_a_lookup_leaves_nothing_external_and_gives_no_tier_more_than_it_had(data):
    """Whatever the overlap: the parts add up, L1 gets at most what it has, L2 at most the rest."""
    hit = data.draw(st.integers(0, 50)) * 16
    l1_hit = data.draw(st.integers(0, hit // 16)) * 16
    local = data.draw(st.integers(0, 60)) * 16
    external = max(0, hit - local)
    lookup = CacheLookup("server", 1.0, hit, l1_hit)

    tokens, _ = split_admission(Admit(ts=2.0, rid="r", prompt=1_000, local=local, external=external), lookup)

    assert tokens.external == 0
    assert tokens.l1 + tokens.l2 == external
    assert tokens.l1 <= l1_hit
    assert tokens.l2 <= hit - l1_hit
