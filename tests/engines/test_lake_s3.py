"""A lake whose files are on S3: written by two collectors, compacted, read by who knows its name."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.buckets import SECRET
from tests.ledgers import START, Ledger
from tierscope.domain.lake_settings import LakeSettings
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)


@pytest.mark.engines
def test_a_lake_on_s3_has_what_a_file_has(postgres, bucket, tmp_path):
    """Every commit is a file of its own; joined or not, the answers are those of a store in a file."""
    lake = postgres.lake(tmp_path)
    settings = LakeSettings(data_path=f"s3://{bucket}/data/", inline_rows=0)
    told = {name: Ledger(n, exporter=name).batches(12) for n, name in enumerate(("node-1", "node-2"))}
    with (
        Store.open(lake.name, settings, clock=lambda: START) as one,
        Store.open(lake.name, clock=lambda: START) as other,
    ):
        for end in (6, 12):
            one.append(told["node-1"][:end])
            other.append(told["node-2"][:end])
            assert one.maintained(keep_snapshots_seconds=0) is not None
        used = one.used_bytes()

    with Store.open(tmp_path / "orderly.duckdb", clock=lambda: START) as orderly:
        for batches in told.values():
            orderly.append(batches)
        expected = orderly.reader().totals("prod", "chat", ALL_TIME).tokens
        rows = orderly.reader().row_counts()["requests"]
    with closing(DuckDbReader.open(lake.name)) as reader:
        assert reader.totals("prod", "chat", ALL_TIME).tokens == expected
        assert reader.row_counts()["requests"] == rows
    assert used > 0
    assert SECRET not in postgres.dump(lake.name)
