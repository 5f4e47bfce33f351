"""Feed batches survive the way to bytes and back; what is no batch is refused by name."""

from __future__ import annotations

import contextlib
import typing
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, LedgerEntry, SourceCoverage, TierSample
from tierscope.domain.tiers import Tier
from tierscope.feed.codec import VERSION, decode_batch, encode_batch, read_position
from tierscope.feed.wire import WIRE_KINDS, WIRE_OF

POSITION = FeedPosition("node-a", 2**63 - 1, 7)
SAMPLE = TierSample(Tier.L1, "cache-0", 5.0, used_bytes=3.0)
EVENT = BlockEvent(Tier.L0, "ns/ep/pod/0", BlockAction.STORED, (1, 2**64 - 1), 6.0)

batches = st.builds(
    FeedBatch,
    st.builds(FeedPosition, strategies.names, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
    strategies.times,
    st.lists(strategies.ledger_entries, max_size=5).map(tuple),
)


def batch_of(*entries):
    return FeedBatch(POSITION, 1.5, entries)


def rewritten(batch, change):
    """The batch's bytes after `change` had its way with them as plain lists."""
    plain = msgspec.msgpack.decode(encode_batch(batch))
    change(plain)
    return msgspec.msgpack.encode(plain)


@given(batch=batches)
def test_every_entry_of_every_kind_comes_back_equal(batch):
    """Nothing is lost, rounded or renamed on the way."""
    assert decode_batch(encode_batch(batch)) == batch


def test_every_kind_of_entry_can_travel():
    """A kind added to the ledger without a way to travel is found here."""
    assert set(WIRE_OF) == set(typing.get_args(LedgerEntry))
    assert len(WIRE_KINDS) == len(WIRE_OF)


def test_every_field_of_every_entry_travels():
    """A field added to a domain type without a place on the wire is found here."""
    kinds = dict(zip(WIRE_OF, WIRE_KINDS, strict=True))
    for domain, wire in kinds.items():
        names = list(domain.__match_args__)
        if domain is SourceCoverage:
            names[:1] = ["source_kind", "source_owner"]

        assert list(wire.__struct_fields__) == names


def test_block_hashes_travel_as_eight_bytes_each():
    """A long chain costs what it must and no more."""
    chain = tuple(range(2**64 - 1000, 2**64))

    size_bytes = len(encode_batch(batch_of(BlockEvent(Tier.L0, "e", BlockAction.STORED, chain, 6.0))))

    assert size_bytes < 8 * len(chain) + 100


@given(batch=batches, data=st.data())
def test_damaged_bytes_are_refused_or_read_never_worse(batch, data):
    """Any byte may change, any tail may be cut, anything may follow."""
    payload = bytearray(encode_batch(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(payload[: data.draw(st.integers(0, len(payload)))]) + data.draw(st.binary(max_size=3))

    with contextlib.suppress(BadInput):
        assert isinstance(decode_batch(damaged), FeedBatch)


@given(payload=st.binary(max_size=200))
def test_any_bytes_are_refused_or_read_never_worse(payload):
    """Whatever arrives under our topic."""
    for read in (decode_batch, read_position):
        with contextlib.suppress(BadInput):
            read(payload)


def test_deep_nesting_is_refused():
    """A payload made to exhaust the stack does not."""
    deep = b"\x96\x01\xa1e\x01\x02\x03" + b"\x91" * 100_000

    with pytest.raises(BadInput):
        decode_batch(deep)


def test_entries_of_an_unknown_kind_are_counted_and_the_rest_is_read():
    """A newer exporter may say more than we know."""
    unknown = Counter()
    payload = rewritten(
        batch_of(SAMPLE, EVENT), lambda plain: plain[5].insert(1, ["weather", 21.5, {"sunny": True}])
    )

    batch = decode_batch(payload, unknown=unknown)

    assert batch == batch_of(SAMPLE, EVENT)
    assert unknown == {"weather": 1}


def test_unknown_kinds_do_not_fill_memory():
    """Made-up kinds are counted together once there are many."""
    unknown = Counter()
    payload = rewritten(batch_of(), lambda plain: plain[5].extend([f"kind {n}"] for n in range(1000)))

    decode_batch(payload, unknown=unknown)

    assert len(unknown) < 50
    assert unknown.total() == 1000


def test_fields_added_by_a_newer_release_are_skipped():
    """They stand at the end, in the batch and in its entries."""

    def append(plain):
        plain[5][0].append("a new field")
        plain.append("another one")

    assert decode_batch(rewritten(batch_of(SAMPLE), append)) == batch_of(SAMPLE)


def test_fields_an_older_release_did_not_know_take_their_defaults():
    """They are missing at the end of its arrays."""
    payload = rewritten(batch_of(SAMPLE), lambda plain: plain[5][0].__delitem__(slice(6, None)))

    assert decode_batch(payload) == batch_of(SAMPLE)


def test_a_newer_version_is_refused_with_the_way_out():
    """Reading on would guess."""
    payload = rewritten(batch_of(SAMPLE), lambda plain: plain.__setitem__(0, VERSION + 1))

    with pytest.raises(BadInput, match=f"version {VERSION + 1}.*\n.*\n.*upgrade"):
        decode_batch(payload)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda plain: plain.__setitem__(3, "seven"), "`sequence`"),
        (lambda plain: plain[5][0].__setitem__(3, "late"), "`at_unix_seconds`"),
        (lambda plain: plain[5][0].__setitem__(1, "l9"), "'l9'"),
        (lambda plain: plain[5][1].__setitem__(4, b"odd"), "multiple"),
        (lambda plain: plain[5][1].__delitem__(slice(3, None)), "at least length 6, got 3"),
        (lambda plain: plain[5].__setitem__(0, []), "no kind"),
        (lambda plain: plain.__setitem__(5, {}), "the entries cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(change, named):
    """The field, the entry's number and kind, the batch and the exporter."""
    with pytest.raises(BadInput) as caught:
        decode_batch(rewritten(batch_of(SAMPLE, EVENT), change))

    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("place", "number", "named"),
    [
        (2, 2**63, "`incarnation` is 9223372036854775808"),
        (2, -1, "`incarnation` is -1"),
        (3, 2**63, "`sequence` is 9223372036854775808"),
        (3, -1, "`sequence` is -1"),
        (4, 7.1e12, "`at_unix_seconds` is 7100000000000.0"),
        (4, -9e12, "`at_unix_seconds` is -9000000000000.0"),
    ],
)
@pytest.mark.parametrize("read", [decode_batch, read_position])
def test_a_header_that_no_store_can_hold_is_refused(read, place, number, named):
    """It would end the writer for every feed."""
    payload = rewritten(batch_of(SAMPLE), lambda plain: plain.__setitem__(place, number))

    with pytest.raises(BadInput, match=named):
        read(payload)


def test_a_time_that_is_no_number_is_read():
    """The store has a clock of its own."""
    payload = rewritten(batch_of(SAMPLE), lambda plain: plain.__setitem__(4, float("nan")))

    assert decode_batch(payload).entries == (SAMPLE,)


def test_an_entry_that_contradicts_itself_is_named():
    """A split that does not add up is refused like on the exporter's side."""
    entry = ["engine_tokens", ["n", "e", "p", 0], "m", 1.0, 2.0, [9, 1, 1, 1, 1, 1]]
    payload = rewritten(batch_of(SAMPLE), lambda plain: plain[5].append(entry))

    with pytest.raises(BadInput, match="does not add up") as caught:
        decode_batch(payload)

    assert caught.value.where == "feed batch 7 of exporter node-a, entry 1 (engine_tokens)"


def test_a_hash_beyond_64_bits_is_refused_before_it_travels():
    """The error says which batch would have carried it."""
    with pytest.raises(BadInput, match="batch 7 of exporter node-a"):
        encode_batch(batch_of(BlockEvent(Tier.L0, "e", BlockAction.STORED, (2**64,), 6.0)))


def test_a_position_is_read_without_the_entries():
    """Enough to know whose batch it is."""
    assert read_position(encode_batch(batch_of(SAMPLE))) == POSITION
