"""What an engine says of prompts, tenants and users ends at the exporter; no file of the store has it."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from exporters.admissions import Admissions, EngineFacts
from exporters.private import keyed_hash
from exporters.vllm.events import decode_events
from exporters.vllm.hook import decode_records
from exporters.vllm.residency import Residency
from tests.captured import ENGINE
from tests.ledgers import START
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.feed.codec import decode_batch, encode_batch
from tierscope.storage.schema import TABLES
from tierscope.storage.store import Store

TOKENS = [1_987_654_321 + n for n in range(64)]
SECRETS = {
    "salt": "salt-of-tenant-acme",
    "session": "session-of-user-4711",
    "user": "user-4711@acme.example",
    "prompt": "the patient's name is",
}
BLOCKS = [101, 102, 103, 104]
REQUEST = "request-that-may-be-stored"


def hook_payload() -> bytes:
    """An admission with everything a careless hook could send along."""
    admit = {
        "t": "admit", "ts": START, "rid": REQUEST, "attempt": 0, "prompt": 64, "arrival": START,
        "ps": [64, 16, 0], "local": 16, "hashes": BLOCKS, "salt": SECRETS["salt"],
        "session": SECRETS["session"], "user": SECRETS["user"], "prompt_text": SECRETS["prompt"],
        "token_ids": TOKENS, "trace": {"baggage": f"user={SECRETS['user']}"},
    }  # fmt: skip
    first = {"t": "first", "ts": START + 1, "rid": REQUEST, "ttft_s": 1.0, "user": SECRETS["user"]}
    hello = {"t": "hello", "ts": START, "block_size": 16, "model": "model-that-may-be-stored"}
    return msgspec.msgpack.encode([hello, admit, first])


def events_payload() -> bytes:
    """A store of blocks as engines announce it: with its token ids and the salt among its extra keys."""
    stored = {
        "type": "BlockStored", "block_hashes": BLOCKS, "parent_block_hash": None, "token_ids": TOKENS,
        "block_size": 16, "lora_id": None, "medium": "GPU", "lora_name": None,
        "extra_keys": [[SECRETS["salt"]]] * len(BLOCKS),
    }  # fmt: skip
    return msgspec.msgpack.encode([START, [stored], 0])


@pytest.fixture
def batch() -> FeedBatch:
    """What an exporter makes of both, as it arrives at a collector."""
    admissions = Admissions(ENGINE, EngineFacts(), keyed_hash(b"k" * 16))
    records = admissions.apply(decode_records(hook_payload(), where="hook").records).records
    events, oddities = Residency(str(ENGINE), "events").apply(decode_events(events_payload(), where="events"))
    assert (len(records), len(events), oddities) == (1, 1, [])
    assert records[0].salt_hash is not None
    assert records[0].session_hash is not None
    told = FeedBatch(FeedPosition("node-1", 7, 0), START, (*records, *events))
    return decode_batch(encode_batch(told))


def traces(content: bytes) -> list[str]:
    """Which secrets stand in some bytes, as text or as numbers of any width DuckDB and msgpack use."""
    found = [name for name, secret in SECRETS.items() if secret.encode() in content]
    for token in TOKENS:
        written = (token.to_bytes(4, "little"), token.to_bytes(4, "big"), str(token).encode())
        if any(form in content for form in written):
            found.append(f"token {token}")
    return found


def test_no_file_of_the_store_holds_a_token_a_prompt_a_salt_or_a_user(tmp_path, batch):
    """Log, file, backup, Parquet and every value as text are searched; the same search finds the request."""
    contents = {"feed": encode_batch(batch)}
    path = tmp_path / "store.duckdb"
    with Store.open(path, clock=lambda: START) as store:
        store.append(batch)
        contents["log"] = path.with_name("store.duckdb.wal").read_bytes()
        store.backup(str(tmp_path / "backup.duckdb"))
        store.to_parquet(str(tmp_path / "parquet"))
        with store._database.reading() as cursor:
            for table in TABLES:
                rows = cursor.execute(f"SELECT * FROM {table.name}").fetchall()
                contents[f"rows of {table.name}"] = repr(rows).encode()
    contents |= {file.name: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    shutil.rmtree(tmp_path / "parquet")

    assert {name: found for name, content in contents.items() if (found := traces(content))} == {}
    for name in ("feed", "log", "rows of requests", "store.duckdb", "requests.parquet"):
        assert REQUEST.encode() in contents[name], f"the search would not have found anything in {name}"
    assert traces(hook_payload() + events_payload())[: len(SECRETS)] == list(SECRETS)
