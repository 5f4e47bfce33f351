"""What the last scan found, over a restart."""

from __future__ import annotations

import numpy as np
import pytest

from exporters.mount.chunks import CHUNK
from exporters.mount.state import VERSION, About, State, load_state, save_state
from tierscope.domain.errors import BadInput


def state(pool="pool", path="/mnt/kv", key_check=7, salted=False, version=VERSION):
    chunks = np.zeros(3, dtype=CHUNK)
    chunks["key"] = [1, 2, 3]
    about = About(version, pool, path, 5.0, key_check, salted, [("a", "", "a"), ("m", "d", "org/m")])
    return State(about, chunks)


def load(file, key_check=7):
    return load_state(file, pool="pool", path="/mnt/kv", key_check=key_check)


def test_a_state_comes_back_as_it_was(tmp_path):
    """Chunks and models, and no half-written file beside it."""
    file = tmp_path / "state"
    save_state(file, state())
    save_state(file, state())

    again = load(file)

    assert again.about == state().about
    assert again.chunks.tolist() == state().chunks.tolist()
    assert list(tmp_path.iterdir()) == [file]


def test_no_file_is_no_state(tmp_path):
    """The first start of all."""
    assert load(tmp_path / "state") is None


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (state(pool="another"), "pool 'another'"),
        (state(path="/mnt/b"), "/mnt/b"),
        (state(version=99), "another release"),
        (state(salted=True, key_check=8), "another key"),
    ],
)
def test_a_state_of_something_else_is_refused(tmp_path, other, reason):
    """What is not comparable must not look like a pool that lost everything."""
    file = tmp_path / "state"
    save_state(file, other)

    with pytest.raises(BadInput, match=reason):
        load(file)


def test_without_salts_the_key_does_not_matter(tmp_path):
    """A key of one run alone is the default."""
    save_state(tmp_path / "state", state(key_check=8))

    assert load(tmp_path / "state") is not None


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_torn_file_is_refused(tmp_path, cut):
    """Whatever is left of it."""
    file = tmp_path / "state"
    save_state(file, state())
    file.write_bytes(file.read_bytes()[:cut])

    with pytest.raises(BadInput, match="cannot be read"):
        load(file)


def test_a_file_that_holds_objects_is_never_run(tmp_path):
    """Arrays of objects would be pickles."""
    file = tmp_path / "state"
    with file.open("wb") as body:
        np.savez(body, about=np.array([{"a": 1}], dtype=object), chunks=state().chunks)

    with pytest.raises(BadInput, match="cannot be read"):
        load(file)
