"""A small store as this release writes it, kept for the releases to come.

    python -m tests.store_fixture        # writes tests/fixtures/stores/version-N.duckdb.gz

Run it once, when a version of the tables is made; a file of a version that is on main is never made anew.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from tests.ledgers import START, Ledger
from tierscope.domain.batch import FeedBatch
from tierscope.domain.deployment import Deployment
from tierscope.storage.schema import VERSION
from tierscope.storage.store import Store

FOLDER = Path(__file__).parent / "fixtures" / "stores"
BATCHES = 25


def path_of(version: int) -> Path:
    """The fixture of a version of the tables."""
    return FOLDER / f"version-{version}.duckdb.gz"


def unpacked(version: int, target: Path) -> Path:
    """Write the fixture's file to `target`; its path."""
    target.write_bytes(gzip.decompress(path_of(version).read_bytes()))
    return target


def told() -> list[FeedBatch]:
    """What every fixture was fed."""
    return Ledger().batches(BATCHES)


def main() -> None:
    """Write the fixture of this release's version."""
    path = path_of(VERSION)
    if path.exists():
        sys.exit(f"{path} is there already; a change of the tables needs a version of its own")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.duckdb"
        with Store.open(file, clock=lambda: START) as store:
            store.append(told())
            store.record_deployment(Deployment("prod", "chat", "model", 2))
            store.save_recommendation(
                "prod", "chat", status="no_change", document=b"{}", at_unix_seconds=START
            )
        path.write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
