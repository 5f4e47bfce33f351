"""Names of vLLM's own file-system tier."""

from __future__ import annotations

import pytest

from exporters.mount.chunk_file import ChunkFile, ChunkFormat
from exporters.mount.native_names import config_digest, parse_config, parse_native_name
from exporters.vllm.events import BlocksStored, decode_events
from tests.captured import event_payloads

DIGITS = "040b03eb19b98aaed7764c6436bd7200af6e6e8a1c58a7c9a2be0138a6bb109c"
FOLDERS = ("org_m_54189ea5c27f_r3", "040", "b0_g1")


def test_every_recorded_block_is_one_the_engine_announced(captures):
    """229 files of 16 KiB, and their hashes are those of the engine's own STORAGE events."""
    run = captures / "vllm" / "run-b-offload-tiers"
    paths = [
        line.split()[0].split("/") for line in (run / "fs_tier_files.txt").read_text("utf-8").splitlines()
    ]

    files = {tuple(path): parse_native_name(path[:-1], path[-1]) for path in paths}

    blocks = [file for file in files.values() if file is not None]
    assert len(blocks) == 229
    assert [path for path, file in files.items() if file is None] == [
        ("_tmp_vllm-tiny_54189ea5c27f", "config.json")
    ]
    announced = {
        block_hash
        for payload in event_payloads(run / "kv_events.jsonl")
        for change in decode_events(payload, where="test").changes
        if isinstance(change, BlocksStored) and change.medium == "STORAGE"
        for block_hash in change.block_hashes
    }
    assert {block.chunk_hash for block in blocks} == announced


def test_folders_say_model_configuration_rank_and_group():
    """The rest is the hash."""
    assert parse_native_name(FOLDERS, f"{DIGITS}.bin") == ChunkFile(
        ChunkFormat.VLLM_NATIVE, "org_m", 0xA2BE0138A6BB109C, rank=3, group=1, layout="54189ea5c27f"
    )


def test_the_tier_may_lie_below_other_folders():
    """What is mounted need not be the tier's own root."""
    file = parse_native_name(("kv", "team", *FOLDERS), f"{DIGITS}.bin")

    assert file is not None
    assert file.model == "org_m"


def test_a_block_being_written_is_temporary():
    """Its name goes on with a random number."""
    assert parse_native_name(FOLDERS, f"{DIGITS}.bin_8123456789.tmp").temporary


@pytest.mark.parametrize(
    ("folders", "name"),
    [
        (FOLDERS, "readme.txt"),
        (FOLDERS, f"{DIGITS}.data"),
        (FOLDERS[1:], f"{DIGITS}.bin"),
        (("org_m_r3", "040", "b0_g1"), f"{DIGITS}.bin"),
        (("org_m_54189ea5c27f_r3", "041", "b0_g1"), f"{DIGITS}.bin"),
        (("org_m_54189ea5c27f_r3", "040", "b0"), f"{DIGITS}.bin"),
    ],
)
def test_a_file_in_the_wrong_place_is_foreign(folders, name):
    """A block lies where its hash says."""
    assert parse_native_name(folders, name) is None


def test_a_configuration_names_the_model_in_full(captures):
    """Its folder has the digest, the document the name."""
    body = (captures / "vllm" / "run-b-offload-tiers" / "fs_tier_config.json").read_bytes()

    assert config_digest(("org_m_54189ea5c27f",), "config.json") == "54189ea5c27f"
    assert parse_config(body) == "MODEL_DIR"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"model_name": 3}', b"\xff\xfe", b'{"layers": ' + 100_000 * b"["],
    ids=["empty", "list", "number", "no text", "too deep"],
)  # fmt: skip
def test_a_document_that_says_nothing_is_no_error(body):
    """The model keeps the name of its folder."""
    assert parse_config(body) is None


@pytest.mark.parametrize(
    ("folders", "name"), [((), "config.json"), (("org_m",), "config.json"), (FOLDERS, "x")]
)
def test_other_configurations_are_foreign(folders, name):
    """Every program has a config.json."""
    assert config_digest(folders, name) is None
