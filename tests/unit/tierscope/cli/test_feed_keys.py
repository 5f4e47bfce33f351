"""Keys of a feed from the command line."""

from __future__ import annotations

import zmq
from typer.testing import CliRunner

from tierscope.cli.feed_keys import COLLECTOR_KEY, EXPORTER_KEY, EXPORTER_PUBLIC, READERS
from tierscope.cli.main import app
from tierscope.feed.curve import read_key, read_names


def test_the_files_fit_together_and_are_their_owners_alone(tmp_path):
    """The collector's public key is the reader's, the exporter's public key that of its secret one."""
    result = CliRunner().invoke(app, ["feed-keys", str(tmp_path / "keys")])

    assert result.exit_code == 0, result.output
    found = {path.name: path for path in (tmp_path / "keys").iterdir()}
    assert set(found) == {COLLECTOR_KEY, EXPORTER_KEY, EXPORTER_PUBLIC, READERS}
    assert read_key(found[EXPORTER_PUBLIC]) == zmq.curve_public(read_key(found[EXPORTER_KEY]))
    assert read_names(found[READERS]) == {zmq.curve_public(read_key(found[COLLECTOR_KEY])): "collector"}
    assert {path.stat().st_mode & 0o777 for path in found.values()} == {0o600}


def test_old_keys_are_not_written_over(tmp_path):
    """Whoever has them would be locked out."""
    CliRunner().invoke(app, ["feed-keys", str(tmp_path)])
    before = (tmp_path / EXPORTER_KEY).read_text()
    result = CliRunner().invoke(app, ["feed-keys", str(tmp_path)])

    assert "already" in str(result.exception)
    assert (tmp_path / EXPORTER_KEY).read_text() == before
