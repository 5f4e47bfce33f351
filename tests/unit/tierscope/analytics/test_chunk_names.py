"""Who names prompts like whom, told from what was said last by those who are still there."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tierscope.analytics.chunk_names import LAST_COMPARED, MOST_PROMPTS, ChunkNames, named_by
from tierscope.domain.identity import EngineId
from tierscope.domain.names import Beginning

FLEET = [f"server-{n}" for n in range(5)]
one_of = st.sampled_from


def said(*tellings):
    """Names by who said them of which prompt."""
    names = ChunkNames()
    for who, prompt, name in tellings:
        names.told(who, prompt, name)
    return names


def strangers_naively(tellings):
    """Every two that share a prompt and are not linked by equal names, whichever way it is gone about."""
    names = {(who, prompt): name for who, prompt, name in tellings}
    linked = {who: {who} for who, _, _ in tellings}
    for (a, prompt), (b, other) in combinations(names, 2):
        if prompt == other and names[a, prompt] == names[b, other]:
            whole = linked[a] | linked[b]
            linked.update(dict.fromkeys(whole, whole))
    shared = [tuple(sorted((a, b))) for (a, p), (b, q) in combinations(names, 2) if p == q]
    return {pair: shared.count(pair) for pair in shared if pair[1] not in linked[pair[0]]}


@given(
    asked=st.lists(st.tuples(one_of(FLEET), st.integers(0, 5)), unique=True, max_size=25),
    names=st.lists(st.integers(0, 3), min_size=25, max_size=25),
)
def test_strangers_are_those_whom_no_agreement_links(asked, names):
    """The same as the closure of all agreements, from either side of a pair."""
    tellings = [(who, prompt, name) for (who, prompt), name in zip(asked, names, strict=False)]
    told, wanted = said(*tellings), strangers_naively(tellings)

    assert told.pairs() == wanted
    for who in FLEET:
        assert told.strangers(who) == {
            next(one for one in pair if one != who): count for pair, count in wanted.items() if who in pair
        }


@given(
    tellings=st.lists(st.tuples(one_of(FLEET), st.integers(0, 5), st.integers(0, 3)), max_size=40),
    dropped=st.sets(st.integers(0, 5)),
)
def test_what_is_forgotten_might_never_have_been_said(tellings, dropped):
    """Prompts that nobody is judged by any more, and names that a process gave before it began anew."""
    names = said(*tellings)
    for prompt in dropped:
        names.forget(prompt)
    kept: dict[tuple[str, int], int] = {}
    for who, prompt, name in tellings:
        if kept.get((who, prompt), name) != name:
            kept = {key: value for key, value in kept.items() if key[0] != who}
        kept[who, prompt] = name

    assert names.pairs() == strangers_naively(
        [(who, prompt, name) for (who, prompt), name in kept.items() if prompt not in dropped]
    )


def test_two_that_are_linked_by_agreement_through_others_are_no_strangers():
    """Each has one name with a third: the one prompt that they name differently is not the seed's doing."""
    names = said(("a", 1, 1), ("b", 1, 2), ("a", 2, 3), ("c", 2, 3), ("c", 3, 4), ("b", 3, 4))

    assert names.pairs() == {}


def test_everyone_of_a_fleet_is_told_who_differs_from_it():
    """Not only the one that was compared first."""
    names = said(*((who, prompt, prompt) for prompt in range(3) for who in FLEET))
    for prompt in range(3):
        names.told("odd", prompt, 100 + prompt)

    assert names.pairs() == {("odd", who): 3 for who in FLEET}
    assert names.strangers("server-4") == {"odd": 3}


def test_who_has_been_silent_for_long_is_gone_with_all_that_it_said():
    """Rollout after rollout brings new names of pods; those before them are neither kept nor told of."""
    names = said(*((who, prompt, ord(who) + prompt) for prompt in range(3) for who in "ad"))
    assert names.pairs() == {("a", "d"): 3}

    for _ in range(MOST_PROMPTS + 2):
        names.told("new", "asked all the time", 1)

    assert names.pairs() == {}
    assert names.name("a", 0) is None
    assert not names.told("new", "asked all the time", 1), "who speaks is remembered"


def test_what_a_process_said_before_it_started_anew_is_no_agreement():
    """Its container began again under the same name, and with another seed."""
    names = said(*((who, prompt, prompt) for prompt in range(4) for who in "ab"))

    names.told("b", 0, 100)

    assert names.pairs() == {("a", "b"): 1}
    assert names.name("b", 3) is None


def test_only_so_many_prompts_are_counted():
    """Those that were named last."""
    names = said(*((who, prompt, f"{who}{prompt}") for prompt in range(LAST_COMPARED + 7) for who in "ab"))

    assert names.strangers("a") == {"b": LAST_COMPARED}


def beginnings(*told):
    """First chunks as (engine, its server, prompt, the server's name of it)."""
    return [
        Beginning(EngineId("ns", "chat", engine), server, "m", 16, 256, prompt, name, of_tokens_alone=True)
        for engine, server, prompt, name in told
    ]


ENGINES = [EngineId("ns", "chat", f"pod-{n}") for n in range(4)]


def test_engines_are_numbered_by_how_their_servers_name_chunks():
    """Two servers agree, a third has its own seed, and whose server nobody can judge goes with the first."""
    told = beginnings(
        ("pod-0", "a", 1, 10), ("pod-1", "b", 1, 20), ("pod-2", "c", 1, 10), ("pod-3", "d", 7, 70)
    )

    assert named_by(told, ENGINES) == [0, 1, 0, 0]
    assert named_by(told[1:3], ENGINES) == [0, 0, 1, 0]


def test_servers_that_agree_name_in_one_way():
    """Also where nothing was told at all."""
    assert named_by(beginnings(("pod-0", "a", 1, 10), ("pod-1", "b", 1, 10)), ENGINES) is None
    assert named_by([], ENGINES) is None
