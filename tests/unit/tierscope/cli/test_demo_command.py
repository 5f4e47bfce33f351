"""`tierscope demo` refuses what it cannot replay before it starts anything."""

from __future__ import annotations

import pytest

from tierscope.cli.demo import _read
from tierscope.domain.errors import BadInput

LINES = """\
{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}
nonsense
{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1]}
"""


def test_a_bad_line_of_the_demos_trace_can_be_left_out(tmp_path, capsys):
    """Without --skip-bad the line is named; with it, it is counted aloud and the rest is replayed."""
    path = tmp_path / "trace.jsonl"
    path.write_text(LINES, encoding="utf-8")

    with pytest.raises(BadInput, match="not a request"):
        _read(path, skip_bad=False)
    trace = _read(path, skip_bad=True)

    assert trace.requests == 2
    assert "1 bad lines left out" in capsys.readouterr().err
