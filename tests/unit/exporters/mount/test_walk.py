"""One walk through a directory that changes, fails, and comes back."""

from __future__ import annotations

import errno
import random
import threading

import pytest

from exporters.mount.fetch import OsMount
from exporters.mount.files import NO_FILES, FileKind
from exporters.mount.models import Models
from exporters.mount.parse import NameReader
from exporters.mount.recognise import Recogniser
from exporters.mount.walk import LOOKUPS_PER_STEP, MOST_DEPTH, Walk
from exporters.private import keyed_hash
from tests.pools import NOW, MemoryMount, engine_name, failure, native_path, server_name, write


@pytest.fixture
def recogniser():
    return Recogniser(NameReader(keyed_hash(b"a key of sixteen")), Models())


@pytest.fixture
def walk(recogniser):
    """Begin a walk over what is known."""
    return lambda known=NO_FILES: Walk(known, recogniser, lambda: NOW)


def run(a_walk, mount):
    root = mount.open()
    try:
        for _ in a_walk.steps(root):
            pass
    finally:
        root.close()
    return a_walk


def hashes(files, *kinds):
    wanted = kinds or (FileKind.CHUNK,)
    return sorted(int(row["chunk_hash"]) for row in files if row["kind"] in wanted)


def native_tree(blocks):
    """The tree of vLLM's own tier, 4 bytes a block."""
    tree = {"org_m_0123456789ab": {"config.json": 20}}
    for block in blocks:
        *folders, name = native_path(block).split("/")
        folder = tree
        for part in folders:
            folder = folder.setdefault(part, {})
        folder[name] = 4
    return tree


def test_everything_below_the_root_is_found(walk, tmp_path):
    """Flat and nested, in a real directory, with sizes and times."""
    write(tmp_path, server_name(1), 10, age_seconds=50)
    write(tmp_path, f"team/{engine_name(2)}", 20)
    write(tmp_path, f"kv/{native_path(3)}", 30)
    write(tmp_path, "notes.txt", 40)

    files = run(walk(), OsMount(str(tmp_path))).files()

    assert hashes(files) == [1, 2, 3]
    assert sorted(files["size_bytes"][files["kind"] != FileKind.DIRECTORY].tolist()) == [10, 20, 30, 40]
    first = files[files["chunk_hash"] == 1][0]
    assert int(first["modified"]) == NOW - 50


def test_what_is_known_is_listed_and_not_looked_at(walk):
    """A second scan of an unchanged pool asks for names alone."""
    mount = MemoryMount({server_name(i): 4 for i in range(10)} | native_tree(range(10, 20)))
    known = run(walk(), mount).files()
    mount.calls.clear()

    files = run(walk(known), mount).files()

    assert "look" not in mount.calls
    assert "content" not in mount.calls
    assert hashes(files) == list(range(20))


def test_only_new_names_are_looked_at_and_vanished_ones_are_gone(walk):
    """Between two scans two came and one went."""
    mount = MemoryMount({server_name(i): 4 for i in range(10)})
    known = run(walk(), mount).files()
    del mount.tree[server_name(3)]
    mount.tree |= {server_name(20): 4, server_name(21): 4}
    mount.calls.clear()

    files = run(walk(known), mount).files()

    assert mount.calls["look"] == 2
    assert hashes(files) == [0, 1, 2, *range(4, 10), 20, 21]


def interrupted_walk(a_walk, mount, at_call):
    """Walk with the mount gone at one call; go on with a new root until it is done."""
    left = [at_call]

    def count(operation, path):
        left[0] -= 1
        if left[0] == 0:
            raise failure(errno.ENOTCONN)

    mount.before_call = count
    interruptions = 0
    for _ in range(3):
        try:
            run(a_walk, mount)
        except OSError:
            interruptions += 1
        else:
            return interruptions
    raise AssertionError("the walk does not end")


@pytest.mark.parametrize("known_before", [False, True])
def test_a_walk_goes_on_after_any_interruption(walk, known_before):
    """Wherever the mount goes away, the result is the same, and nothing is looked at twice for it."""
    tree = {server_name(i): 4 for i in range(7)} | native_tree(range(10, 16))
    known = run(walk(), MemoryMount(dict.fromkeys(list(tree)[:4], 4))).files() if known_before else NO_FILES
    whole = MemoryMount(tree)
    expected = run(walk(known.copy()), whole).files()
    calls = sum(whole.calls.values())

    for at_call in range(1, calls + 1):
        mount = MemoryMount(tree)
        a_walk = walk(known.copy())

        interruptions = interrupted_walk(a_walk, mount, at_call)

        files = a_walk.files()
        assert interruptions == 1
        assert files.tolist() == expected.tolist(), at_call
        assert mount.calls.get("look", 0) <= whole.calls["look"] + LOOKUPS_PER_STEP
        assert mount.open_folders == 0


def test_folders_that_were_read_are_not_read_again(walk):
    """An interruption costs the folder it fell in."""
    mount = MemoryMount({f"d{i}": {server_name(i): 4} for i in range(6)})
    mount.faults["enter", "d2"] = failure(errno.ESTALE)
    a_walk = walk()
    with pytest.raises(OSError, match=r"[Ss]tale"):
        run(a_walk, mount)
    mount.faults.clear()

    run(a_walk, mount)

    assert mount.calls["list"] == 6 + 2, "six folders, and the root in two pieces"
    assert hashes(a_walk.files()) == list(range(6))


def test_what_vanishes_meanwhile_is_simply_not_there(walk):
    """A file between its name and its size, a folder between its name and its opening."""
    mount = MemoryMount({server_name(1): 4, server_name(2): 4, "gone": {server_name(3): 4}})

    def remove(operation, path):
        if operation == "look" and path == server_name(1):
            mount.tree.pop(server_name(1), None)
        if operation == "enter":
            mount.tree.pop("gone", None)

    mount.before_call = remove

    a_walk = run(walk(), mount)

    assert (a_walk.unread.folders, a_walk.unread.files) == (0, 0)
    assert hashes(a_walk.files()) == [2]


def test_a_folder_that_cannot_be_read_is_told_and_its_files_stay(walk):
    """Nobody can say that they are gone. What vanished elsewhere is noticed all the same."""
    mount = MemoryMount({"team": {"a": {server_name(1): 4}, "b": {server_name(2): 4}}, server_name(3): 4})
    known = run(walk(), mount).files()
    mount.tree["team"]["b"].clear()
    del mount.tree[server_name(3)]
    mount.faults["enter", "team/a"] = failure(errno.EACCES)

    a_walk = run(walk(known), mount)

    assert a_walk.unread.folders == 1
    assert a_walk.unread.examples == ["team/a: Permission denied"]
    assert hashes(a_walk.files()) == [1, 2], "the whole branch is in doubt"


def test_a_listing_that_breaks_leaves_the_rest_in_doubt(walk):
    """An error of one folder's disk is that folder's alone."""
    mount = MemoryMount({"a": {server_name(i): 4 for i in range(5)}, server_name(9): 4})
    known = run(walk(), mount).files()
    mount.faults["list", "a"] = failure(errno.EIO)

    a_walk = run(walk(known), mount)

    assert a_walk.unread.folders == 1
    assert hashes(a_walk.files()) == [0, 1, 2, 3, 4, 9]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EIO, errno.ENOTCONN])
def test_a_root_that_cannot_be_listed_is_no_empty_pool(walk, number):
    """Everything would look evicted."""
    mount = MemoryMount({server_name(1): 4})
    mount.faults["list", ""] = failure(number)

    with pytest.raises(OSError, match=failure(number).strerror):
        run(walk(), mount)


def test_a_file_that_cannot_be_looked_at_is_met_again(walk):
    """It is counted, and the next scan tries once more."""
    mount = MemoryMount({server_name(1): 4, server_name(2): 4})
    mount.faults["look", server_name(1)] = failure(errno.EIO)
    first = run(walk(), mount)
    assert first.unread.files == 1
    known = first.files()
    assert hashes(known) == [2]
    mount.faults.clear()

    assert hashes(run(walk(known), mount).files()) == [1, 2]


def test_links_are_not_followed(walk, recogniser, tmp_path):
    """Neither to a folder nor to a file, nor round in a circle."""
    pool, outside = tmp_path / "pool", tmp_path / "outside"
    write(pool, server_name(1))
    write(outside, server_name(2))
    (pool / "out").symlink_to(outside)
    (pool / "round").symlink_to(pool)
    (pool / server_name(3)).symlink_to(outside / server_name(2))

    files = run(walk(), OsMount(str(pool))).files()

    assert hashes(files) == [1]
    assert recogniser.foreign.count == 3


def test_folders_nest_no_deeper_than_is_sensible(walk):
    """What lies deeper is told, not read."""
    tree: dict = {server_name(1): 4}
    for _ in range(MOST_DEPTH + 1):
        tree = {"d": tree}

    a_walk = run(walk(), MemoryMount(tree))

    assert a_walk.unread.folders == 1
    assert "nested too deep" in a_walk.unread.examples[0]
    assert hashes(a_walk.files()) == []


def test_a_file_that_may_still_grow_is_looked_at_again(walk):
    """An empty one always; one that is written in place until it has been quiet."""
    growing, settled = engine_name(1, ending=".pt"), engine_name(2, ending=".pt")
    mount = MemoryMount(
        {growing: (4, 5), settled: (4, 600), server_name(3): (0, 600), server_name(4): (4, 5)}
    )
    known = run(walk(), mount).files()
    assert hashes(known, FileKind.GROWING) == [1]
    assert hashes(known, FileKind.EMPTY) == [3]
    mount.tree[growing] = (9, 600)
    mount.tree[server_name(3)] = (8, 5)
    mount.calls.clear()

    files = run(walk(known), mount).files()

    assert mount.calls["look"] == 2
    assert hashes(files) == [1, 2, 3, 4]
    assert sorted(files["size_bytes"].tolist()) == [4, 4, 8, 9]


def test_a_native_tier_tells_its_models_name_in_full(walk, recogniser):
    """From the configuration beside its blocks."""
    run(walk(), MemoryMount(native_tree([1])))

    assert recogniser.models.names[1:] == ["org/m"]


def test_a_temporary_file_is_no_chunk(walk):
    """Until it is renamed."""
    name = server_name(1).removesuffix(".data") + ".tmp"
    mount = MemoryMount({name: 4})
    known = run(walk(), mount).files()
    assert known["kind"].tolist() == [FileKind.TEMPORARY]
    mount.tree = {server_name(1): 4}

    assert hashes(run(walk(known), mount).files()) == [1]


def test_a_pool_in_use_is_read_as_it_is(walk, tmp_path):
    """While others write, rename and delete: what was there all the time is found, nothing fails."""
    lasting = list(range(300))
    for chunk in lasting:
        write(tmp_path, server_name(chunk))
    rng = random.Random(5)
    done = threading.Event()

    def trouble():
        while not done.is_set():
            temporary = write(tmp_path, "x@0x01000100@0@ff.tmp")
            renamed = temporary.rename(tmp_path / server_name(1000 + rng.randrange(200)))
            if rng.random() < 0.7:
                renamed.unlink()

    writer = threading.Thread(target=trouble)
    writer.start()
    try:
        known = NO_FILES
        for _ in range(20):
            a_walk = run(walk(known), OsMount(str(tmp_path)))
            assert (a_walk.unread.folders, a_walk.unread.files) == (0, 0)
            known = a_walk.files()
            assert set(hashes(known)) >= set(lasting)
    finally:
        done.set()
        writer.join()
