"""`tierscope store` looks after a store's file."""

from __future__ import annotations

from contextlib import closing

import pytest
from typer.testing import CliRunner

from tests.store_fixture import unpacked
from tierscope.cli.main import app
from tierscope.domain.errors import StoreUnusable
from tierscope.storage.duckdb_reader import DuckDbReader


def test_a_file_of_an_earlier_release_is_brought_up_by_one_command(tmp_path):
    """After it, those who read files read this one."""
    path = unpacked(1, tmp_path / "store.duckdb")
    with pytest.raises(StoreUnusable):
        DuckDbReader.open(path)

    done = CliRunner().invoke(app, ["store", "upgrade", str(path)])

    assert done.exit_code == 0, done.output
    with closing(DuckDbReader.open(path)) as reader:
        assert reader.row_counts()["requests"] > 0
