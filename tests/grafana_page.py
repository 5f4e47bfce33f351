"""The page that draws boards with Grafana's own components: built once, served on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SOURCES = Path(__file__).parent / "long/grafana_page"
BUILD_SECONDS = 1200.0


def built_page(cache: Path) -> Path:
    """The folder with the built page, in half a gigabyte of packages."""
    work = cache / "grafana-page"
    built_from, sources = work / "dist/built-from", _digest()
    if built_from.exists() and built_from.read_text() == sources:
        return work / "dist"
    modules = work / "node_modules"
    lock = SOURCES / "package-lock.json"
    work.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "index.html", "vite.config.js"):
        shutil.copy(SOURCES / name, work)
    shutil.copytree(SOURCES / "src", work / "src", dirs_exist_ok=True)
    if not modules.exists() or (work / lock.name).read_bytes() != lock.read_bytes():
        shutil.copy(lock, work)
        _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", folder=work)
    _run("npx", "vite", "build", "--logLevel", "error", folder=work)
    built_from.write_text(sources)
    return work / "dist"


def _digest() -> str:
    files = (path for path in sorted(SOURCES.rglob("*")) if path.is_file())
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _run(*command: str, folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"{command[0]} is not installed: the page wants Node 20 and npm")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False,
        env={**os.environ, "CI": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class ServedFolder:
    """A folder's files over HTTP, until closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
