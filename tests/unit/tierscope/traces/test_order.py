"""Which rows are out of the order of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive
from tierscope.traces.order import out_of_order

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans()), max_size=20)


def marked(session: list[int], at_ms: list[int], left_out: list[bool]) -> list[bool]:
    sessions = np.array(session, dtype=np.int64)
    order = np.argsort(sessions, kind="stable")
    return out_of_order(
        np.array(at_ms, dtype=np.int64), sessions, order, np.array(left_out, dtype=np.bool_)
    ).tolist()


@given(rows=rows)
def test_the_fewest_rows_are_marked_and_the_rest_is_in_order(rows):
    """In each session as many rows stay as can; rows left out before never stay."""
    session, at_ms, left_out = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])

    out = marked(session, at_ms, left_out)

    for one in set(session):
        given_rows = [i for i in range(len(rows)) if session[i] == one and not left_out[i]]
        kept = [at_ms[i] for i in range(len(rows)) if session[i] == one and not out[i]]
        assert kept == sorted(kept)
        assert len(kept) == naive.longest_in_order([at_ms[i] for i in given_rows])
    assert all(out[i] for i in range(len(rows)) if left_out[i])


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        ([0, 3, 3, 2], [False, False, False, True]),
        ([5, 3], [False, True]),
        ([0, 10**18, 1, 2], [False, True, False, False]),
        ([10**18, 0, 1, 2], [True, False, False, False]),
    ],
)
def test_one_absurd_time_costs_one_row_and_of_equals_the_later_goes(at_ms, expected):
    """A jump far ahead does not make everything after it late."""
    assert marked([0] * len(at_ms), at_ms, [False] * len(at_ms)) == expected
