"""Scan after scan of one pool."""

from __future__ import annotations

import pytest

from exporters.mount.scan import Scanner
from exporters.private import keyed_hash
from tests.pools import NOW, MemoryMount, native_path, server_name
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.mount_settings import MountSettings


@pytest.fixture
def mount():
    return MemoryMount({server_name(i): 4 for i in range(4)})


@pytest.fixture
def scanner(mount):
    return make_scanner(mount)


def make_scanner(mount, *, state=None, key=b"a key of sixteen", **fields):
    settings = MountSettings(pool="pool", path="/mnt/kv", **fields)
    return Scanner(
        settings,
        mount,
        keyed_hash(key),
        clock=lambda: NOW,
        monotonic=iter(range(10**6)).__next__,
        state=state,
    )


def scan(scanner):
    root = scanner.open()
    try:
        for _ in scanner.walk(root).steps(root):
            pass
    finally:
        root.close()
    return scanner.finish()


def changed(result):
    return sorted(result.changes.stored["hash"].tolist()), sorted(result.changes.removed["hash"].tolist())


def test_the_first_scan_changes_nothing(scanner):
    """What it finds was there before anybody looked."""
    result = scan(scanner)

    assert result.changes is None
    assert (result.chunks, result.figures.total.files) == (4, 4)


def test_the_next_scan_says_what_came_and_went(scanner, mount):
    """One chunk evicted by the pool, one stored by a cache."""
    scan(scanner)
    del mount.tree[server_name(2)]
    mount.tree[server_name(9)] = 4

    assert changed(scan(scanner)) == ([9], [2])
    assert changed(scan(scanner)) == ([], [])


def test_a_model_is_a_chunks_own(scanner, mount):
    """Two models may give two prefixes one hash: each has its chunk."""
    mount.tree = {server_name(1, model="a"): 4, server_name(1, model="b"): 4}
    assert scan(scanner).chunks == 2
    del mount.tree[server_name(1, model="b")]

    result = scan(scanner)

    assert changed(result) == ([], [1])
    assert [result.labels[chunk["model"]] for chunk in result.changes.removed] == ["b"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"salt": "a"}, {"salt": "b"}),
        ({"salt": None}, {"salt": "b"}),
        ({"world": 1}, {"world": 2}),
    ],
)
def test_salt_and_world_size_keep_chunks_apart(scanner, mount, one, other):
    """One tenant's chunk is not another's; two parallel layouts share no file."""
    mount.tree = {server_name(1, **one): 4, server_name(1, **other): 4}

    assert scan(scanner).chunks == 2


def test_ranks_and_groups_are_parts_of_one_chunk(scanner, mount):
    """Four ranks of two groups: one chunk."""
    mount.tree = {server_name(1, world=4, rank=r, group=g): 4 for r in range(4) for g in range(2)}

    assert scan(scanner).chunks == 1


def test_another_directory_in_its_place_is_no_eviction(scanner, mount):
    """The pool was replaced: nothing in it is comparable."""
    scan(scanner)
    mount.device, mount.tree = 8, {server_name(100): 4}

    result = scan(scanner)

    assert result.restarted
    assert result.changes is None
    assert changed(scan(scanner)) == ([], [])


def test_an_empty_mount_point_is_no_eviction(scanner, mount):
    """The volume was unmounted under us: its directory is there, empty, on the node's own disk."""
    scan(scanner)
    full, mount.tree, mount.device = mount.tree, {}, 8

    with pytest.raises(SourceUnreadable, match="empty, and on another file system"):
        scan(scanner)

    mount.tree, mount.device = {**full, server_name(9): 4}, 9
    assert changed(scan(scanner)) == ([9], [])


def test_a_volume_mounted_again_goes_on(scanner, mount):
    """It is another file system by number, with the same files."""
    scan(scanner)
    mount.device = 8
    del mount.tree[server_name(0)]

    result = scan(scanner)

    assert not result.restarted
    assert changed(result) == ([], [0])


def test_a_pool_that_was_emptied_is_an_eviction(scanner, mount):
    """On the same file system, empty is empty."""
    scan(scanner)
    mount.tree.clear()

    assert changed(scan(scanner)) == ([], [0, 1, 2, 3])


def test_a_volume_that_is_not_mounted_is_refused(mount):
    """Its directory lies on the file system of /."""
    mount.device = mount.root

    with pytest.raises(SourceUnreadable, match="not mounted"):
        make_scanner(mount).open()

    assert mount.open_folders == 0
    make_scanner(mount, must_be_mounted=False).open().close()


def test_an_interrupted_walk_in_another_file_system_begins_anew(scanner, mount):
    """What was met before belongs to a mount that is gone."""
    root = scanner.open()
    steps = scanner.walk(root).steps(root)
    for _ in range(2):
        next(steps)
    steps.close()
    root.close()
    mount.device, mount.tree = 8, {server_name(50): 4}

    assert scan(scanner).chunks == 1


def test_the_next_process_sees_what_happened_between(scanner, mount):
    """From the state of the last scan: evicted and stored while nobody looked."""
    mount.tree |= {native_path(40).split("/")[0]: {}}
    state = scan(scanner).state
    del mount.tree[server_name(1)]
    mount.tree[server_name(8)] = 4

    result = scan(make_scanner(mount, state=state, key=b"another key of 24 bytes"))

    assert changed(result) == ([8], [1])
    assert result.labels[result.changes.removed[0]["model"]] == "org/m"


def test_after_a_restart_a_locked_folder_is_no_eviction(mount):
    """Nothing tells which chunks lay in it."""
    mount.tree = {"a": {server_name(1): 4}, server_name(2): 4}
    state = scan(make_scanner(mount)).state
    mount.faults["enter", "a"] = OSError(13, "Permission denied")

    scanner = make_scanner(mount, state=state)

    assert changed(scan(scanner)) == ([], [])
    mount.faults.clear()
    assert changed(scan(scanner)) == ([], [])


def test_dead_files_are_told_apart(scanner, mount):
    """A temporary file that nobody writes to any more, a chunk without a byte, a stranger."""
    mount.tree |= {
        server_name(5).replace(".data", ".tmp"): (7, 4000),
        server_name(6).replace(".data", ".tmp"): (7, 10),
        server_name(7): (0, 4000),
        "readme": 3,
    }

    result = scan(scanner)

    figures = result.figures
    kinds = ("chunk", "dead_temp", "temp", "empty", "foreign")
    assert [figures.of_kind(kind).files for kind in kinds] == [4, 1, 1, 1, 1]
    assert (result.foreign.count, result.foreign.examples) == (1, ["readme"])
    assert result.chunks == 4
