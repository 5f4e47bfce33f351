"""A private network and private mounts: packets that are really dropped, names that are really gone.

    unshare --net --mount --propagation private python -m …

Inside, `enter` brings loopback up and makes /etc/hosts a file of ours. Nothing outside is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

UNSHARE = ("unshare", "--net", "--mount", "--propagation", "private")
HOSTS = Path("/etc/hosts")
FILL_TRIES = 100
LOCAL_PREFERENCE, DROP_PREFERENCE = "100", "10"


def can_unshare() -> bool:
    """Whether this machine lets us."""
    if os.getuid() or not all(map(shutil.which, ("unshare", "ip", "mount"))):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def enter(folder: Path) -> None:
    """Make the namespaces ours; loopback is up, and its packets pass the rules of `dropped` first."""
    for words in (
        "link set lo up",
        f"rule add pref {LOCAL_PREFERENCE} lookup local",
        "rule del pref 0",
    ):
        _run("ip", *words.split())
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    _run("mount", "--bind", str(hosts), str(HOSTS))


def name(names: Iterable[str]) -> None:
    """Let these names be loopback, and no others."""
    HOSTS.write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {one}\n" for one in names))


@contextmanager
def tmpfs(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A folder with so much room."""
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=777", "none", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def filled(folder: Path, size_bytes: int) -> Iterator[bool]:
    """Leave the folder of `tmpfs` no more room than what is in it takes; whether that was done.

    What is written meanwhile is in the way of making it smaller, and is waited for.
    """
    shrunk = False
    for _ in range(FILL_TRIES):
        has = os.statvfs(folder)
        used_bytes = (has.f_blocks - has.f_bfree) * has.f_frsize
        try:
            _run("mount", "-o", f"remount,size={used_bytes}", str(folder))
        except subprocess.CalledProcessError:
            continue
        shrunk = True
        break
    try:
        yield shrunk
    finally:
        _run("mount", "-o", f"remount,size={size_bytes}", str(folder))


@contextmanager
def dropped(ports: Iterable[int]) -> Iterator[None]:
    """Drop every packet to and from these TCP ports; a new connection is refused by our own kernel."""
    rules = [
        ("pref", DROP_PREFERENCE, "ipproto", "tcp", end, str(port), "blackhole")
        for port in ports
        for end in ("dport", "sport")
    ]
    try:
        for rule in rules:
            _run("ip", "rule", "add", *rule)
        yield
    finally:
        for rule in rules:
            _run("ip", "rule", "del", *rule)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
