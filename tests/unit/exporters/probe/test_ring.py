"""The ring of newest payloads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierscope_probe.ring import Ring


@given(sizes=st.lists(st.integers(0, 50), max_size=40), most_bytes=st.integers(1, 100))
def test_the_newest_payloads_that_fit_are_there(sizes, most_bytes):
    """The ring holds a run of newest payloads within its bytes, and always the newest one."""
    ring = Ring(most_bytes)
    payloads = [bytes([number % 256]) * size for number, size in enumerate(sizes)]

    sequences = [ring.append(payload) for payload in payloads]

    assert sequences == list(range(len(sizes)))
    kept = [payload for sequence in sequences if (payload := ring.get(sequence)) is not None]
    assert kept == payloads[ring.oldest_sequence :]
    assert len(kept) <= 1 or sum(map(len, kept)) <= most_bytes
    assert bool(kept) == bool(payloads)
    assert ring.get(len(sizes)) is None
