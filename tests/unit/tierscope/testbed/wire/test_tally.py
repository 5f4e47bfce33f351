"""The sum of what records say: the truth that readers are held to."""

from __future__ import annotations

from tierscope.domain.requests import TokenSplit
from tierscope.testbed.wire.tally import Tally


def admit(rid, *, prompt=100, local=32, external=0, split=None, attempt=0):
    return {
        "t": "admit",
        "rid": rid,
        "attempt": attempt,
        "prompt": prompt,
        "local": local,
        "external": external,
        "split": split,
    }


def first(rid):
    return {"t": "first", "rid": rid}


def test_a_request_counts_at_its_first_token():
    """An admission alone is not counted; with its first token it is, once."""
    tally = Tally()
    tally.read([admit("a"), admit("b", external=40, split={"host": 8, "disk": 32}), first("b"), first("b")])

    assert tally.tokens == TokenSplit(100, l0=32, l1=8, l2=32, computed=28)
    assert tally.served == 1


def test_a_readmission_changes_nothing():
    """What was found at the first admission is what counts, even if the first token comes later."""
    tally = Tally()
    tally.read([admit("a"), admit("a", local=96, attempt=1), first("a")])

    assert tally.tokens == TokenSplit(100, l0=32, computed=68)


def test_an_unsplit_load_is_external():
    """Without a word on tiers, loads are of no known tier."""
    tally = Tally()
    tally.read([admit("a", external=48), first("a")])

    assert tally.tokens == TokenSplit(100, l0=32, external=48, computed=20)


def test_a_new_hook_knows_nothing_of_admissions_before_it():
    """After a hello, first tokens of the engine before are no one's."""
    tally = Tally()
    tally.read([admit("a")])
    tally.read([{"t": "hello"}, first("a")])

    assert tally.served == 0


def lookup(rid, l1_hit_tokens, k=0):
    return {"t": "lookup", "rid": rid, "k": k, "l1_hit_tokens": l1_hit_tokens}


def test_the_cache_servers_lookup_splits_a_load():
    """Whichever stream goes out first; L1 gets what it had beyond L0, L2 the rest."""
    early, late = Tally(), Tally()
    early.read_cache([lookup("a", 64), lookup("a", 0, k=1)])
    early.read([admit("a", external=48), first("a")])
    late.read([admit("a", external=48), first("a")])
    assert late.tokens.external == 48
    late.read_cache([lookup("a", 64)])

    assert early.tokens == late.tokens == TokenSplit(100, l0=32, l1=32, l2=16, computed=20)


def test_a_lookup_gives_l1_no_more_than_was_loaded():
    """Nor less than nothing, where L0 has more than L1."""
    tally = Tally()
    tally.read_cache([lookup("more", 96), lookup("less", 16)])
    tally.read([admit("more", external=16), admit("less", external=16), first("more"), first("less")])

    assert tally.tokens == TokenSplit(200, l0=64, l1=16, l2=16, computed=104)
