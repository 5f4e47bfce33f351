"""`tierscope store` looks after a store's file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from exporters.private import keyed_hash
from tests.ledgers import START, admission, batch
from tests.store_fixture import unpacked
from tierscope.cli.main import app
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.serving import StoreServer, socket_path
from tierscope.storage.store import Store

KEY = b"sixteen bytes or more"


@pytest.fixture(params=["closed", "collected"])
def path(request, tmp_path):
    """A store's file with two tenants, closed or owned by a process that listens."""
    path = tmp_path / "store.duckdb"
    store = Store.open(path, clock=lambda: START)
    store.append(
        batch(
            0,
            replace(admission("ab", name="1"), salt_hash=keyed_hash(KEY)("tenant-1")),
            replace(admission("xy", name="2"), salt_hash=keyed_hash(KEY)("tenant-2")),
        )
    )
    if request.param == "closed":
        store.close()
        yield path
        return
    server = StoreServer(store.reader(), socket_path(path), store=store)
    yield path
    server.close()
    store.close()


def run(*arguments):
    done = CliRunner().invoke(app, ["store", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def requests_of(path) -> int:
    with closing(DuckDbReader.open(path)) as reader:
        return reader.row_counts()["requests"]


def test_a_file_of_an_earlier_release_is_brought_up_by_one_command(tmp_path):
    """After it, those who read files read this one."""
    path = unpacked(1, tmp_path / "store.duckdb")
    with pytest.raises(StoreUnusable):
        DuckDbReader.open(path)

    done = CliRunner().invoke(app, ["store", "upgrade", str(path)])

    assert done.exit_code == 0, done.output
    with closing(DuckDbReader.open(path)) as reader:
        assert reader.row_counts()["requests"] > 0


def test_a_store_is_copied_whether_or_not_a_collector_owns_it(path, tmp_path):
    """One command; the copy is a store."""
    run("backup", path, tmp_path / "copy.duckdb")

    assert requests_of(tmp_path / "copy.duckdb") == 2


def test_parquet_is_written_whether_or_not_a_collector_owns_the_store(path, tmp_path):
    """One file a table, and the rows told."""
    assert "requests: 2 rows" in run("to-parquet", path, tmp_path / "parquet")

    assert (tmp_path / "parquet" / "requests.parquet").exists()


def test_a_tenant_is_forgotten_by_its_salt(path, tmp_path):
    """The salt and the exporter's key are read from files, and never from the command line."""
    (tmp_path / "salt").write_text("tenant-1\n")
    (tmp_path / "key").write_bytes(KEY)

    told = run("forget", path, "--salt-file", tmp_path / "salt", "--key-file", tmp_path / "key")

    assert "requests: 1 rows" in told
    run("backup", path, tmp_path / "copy.duckdb")
    assert requests_of(tmp_path / "copy.duckdb") == 1


def test_a_salt_without_its_key_is_refused(tmp_path):
    """Another key would name another tenant."""
    path = tmp_path / "store.duckdb"
    Store.open(path, clock=lambda: START).close()

    done = CliRunner().invoke(app, ["store", "forget", str(path), "--salt-file", str(path)])

    assert done.exit_code == 2
    assert "--key-file" in done.output
