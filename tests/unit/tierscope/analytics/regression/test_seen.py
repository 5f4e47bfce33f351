"""What was asked for before, against a slow twin that remembers every request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tierscope.analytics.regression.test_recency import chain, paths
from tierscope.analytics.regression.seen import Reusable, SeenBlocks

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
    seen = SeenBlocks(most_blocks=8)
    for model in range(6):
        for engine in range(4):
            seen.ask(f"m{model}", [100 * engine + block for block in range(8)], engine)
            assert len(seen) <= 2 * 8

    assert sum(part.blocks for part in seen.ask("m5", [300, 301, 302], 3).own) == 3
    assert seen.ask("m0", [300, 301, 302], 3).fleet == []


def test_no_model_finds_anothers_blocks():
    """Though the same prompt has the same hashes for both."""
    seen = SeenBlocks()
    seen.ask("small", [1, 2, 3], 0)

    assert seen.ask("large", [1, 2, 3], 0) == Reusable([], [], 0)
