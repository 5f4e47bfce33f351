"""How fast an exporter reads: metrics pages, next to the Python client's parser, and KV events."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from exporters.exposition import SeriesCache, parse_exposition
from exporters.vllm.events import decode_events
from exporters.vllm.residency import Residency
from tierscope.cli.benches.rows import Row, best_seconds

ENGINES = 8
HISTOGRAMS = 24
EDGES = tuple(round(0.001 * 1.5**step, 6) for step in range(22))
BATCHES = 2_000
BLOCKS = 16
BLOCK_TOKENS = 16


def page_parser() -> Iterator[Row]:
    """A page of eight engines read again, as at every poll: the series are known, the values are new."""
    text = _page()
    lines = sum(not line.startswith("#") for line in text.splitlines())
    cache = SeriesCache()
    parse_exposition(text, where="bench", cache=cache)
    ours = best_seconds(lambda: parse_exposition(text, where="bench", cache=cache))
    peers = best_seconds(lambda: list(text_string_to_metric_families(text)), repeats=2)
    yield Row(
        "metrics page, series known",
        lines / ours / 1e6,
        "M lines/s",
        "prometheus_client.parser",
        peers / ours,
    )


def event_decoder() -> Iterator[Row]:
    """KV events of 16-block stores, from a stream's bytes to block events with residency kept."""
    payloads = _payloads(random.Random(1))  # noqa: S311  a repeatable workload, no secret
    blocks = len(payloads) * BLOCKS

    def decode() -> None:
        residency = Residency("bench", "bench")
        for sequence, payload in enumerate(payloads):
            residency.apply(decode_events(payload, where="bench"), sequence)

    yield Row("KV events to block events", blocks / best_seconds(decode) / 1e6, "M blocks/s")


def _page() -> str:
    lines: list[str] = []
    for number in range(HISTOGRAMS):
        name = f"vllm:family_{number}_seconds"
        lines += [f"# HELP {name} What it measures.", f"# TYPE {name} histogram"]
        for engine in range(ENGINES):
            labels = f'engine="{engine}",model_name="served/model-8b"'
            lines += [f'{name}_bucket{{{labels},le="{edge}"}} {engine * 1000.0}' for edge in EDGES]
            lines += [
                f'{name}_bucket{{{labels},le="+Inf"}} 9000.0',
                f"{name}_count{{{labels}}} 9000.0",
                f"{name}_sum{{{labels}}} 123.456789",
            ]
    return "\n".join([*lines, ""])


def _payloads(rng: random.Random) -> list[bytes]:
    """Batches as an engine of 0.24 or later encodes them, token ids included."""
    return [
        msgspec.msgpack.encode(
            [
                1.7e9 + number,
                [
                    {
                        "type": "BlockStored",
                        "block_hashes": [rng.getrandbits(64) for _ in range(BLOCKS)],
                        "parent_block_hash": None,
                        "token_ids": list(range(BLOCKS * BLOCK_TOKENS)),
                        "block_size": BLOCK_TOKENS,
                        "medium": "GPU",
                        "group_idx": 0,
                    }
                ],
                0,
            ]
        )
        for number in range(BATCHES)
    ]
