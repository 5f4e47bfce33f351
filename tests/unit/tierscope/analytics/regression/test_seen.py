"""What was asked for before, against a slow twin that remembers every request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tierscope.analytics.regression.test_recency import chain, paths
from tierscope.analytics.regression.seen import Remembered, Reusable, SeenBlocks

asked = st.lists(st.tuples(paths, st.integers(0, 2)), max_size=25)


@given(requests=asked, most=st.integers(0, 6))
def test_reuse_is_told_by_engine_as_a_list_of_all_requests_would(requests, most):
    """Asked for on this engine, and never here but elsewhere; no further than can be hit."""
    seen, history = SeenBlocks(), []
    for path, engine in requests:
        blocks = chain(path)
        ever = [{who for known, who in history if block in known} for block in blocks[:most]]

        found = seen.ask("m", blocks, engine, most)

        assert sum(part.blocks for part in found.own) == sum(engine in who for who in ever)
        assert found.foreign == sum(bool(who) and engine not in who for who in ever)
        assert sum(part.blocks for part in found.fleet) == sum(map(bool, ever))
        history.append((set(blocks), engine))


def test_models_and_engines_share_what_is_remembered():
    """More of them do not need more memory, and those that are gone leave theirs to the others."""
    remembered = Remembered(most_blocks=8)
    seen = SeenBlocks(remembered)
    for model in range(6):
        for engine in range(4):
            seen.ask(f"m{model}", [100 * engine + block for block in range(8)], engine)
            assert len(remembered) <= 2 * 8

    assert sum(part.blocks for part in seen.ask("m5", [300, 301, 302], 3).own) == 3
    assert seen.ask("m0", [300, 301, 302], 3).fleet == []


def test_no_model_finds_anothers_blocks():
    """Though the same prompt has the same hashes for both."""
    seen = SeenBlocks()
    seen.ask("small", [1, 2, 3], 0)

    assert seen.ask("large", [1, 2, 3], 0) == Reusable([], [], 0)


def test_endpoints_share_what_is_remembered_and_find_nothing_of_each_other():
    """However many a collector watches, its memory is one bound; the one that asks drives out the silent."""
    remembered = Remembered(most_blocks=8)
    one, other = SeenBlocks(remembered), SeenBlocks(remembered)
    one.ask("m", [1, 2, 3], 0)

    assert other.ask("m", [1, 2, 3], 0) == Reusable([], [], 0)
    assert sum(part.blocks for part in one.ask("m", [1, 2, 3], 0).own) == 3
    other.ask("m", list(range(10, 18)), 0)
    assert len(remembered) <= 2 * 8
    assert one.ask("m", [1, 2, 3], 0) == Reusable([], [], 0)
