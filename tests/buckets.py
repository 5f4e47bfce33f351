"""An S3 server of the tests' own: moto, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines import virtualenv
from tests.exporting import await_true
from tests.ports import free_port

SECRET = "a-secret-nobody-may-see"
BUCKET = "lake"
PINS = Path(__file__).parent / "engines" / "moto-5.2.5.txt"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run one with an empty bucket for the body's time; what the environment says of it."""
    given = os.environ.get("TIERSCOPE_MOTO_ENVIRONMENT")
    folder = virtualenv.prepared("moto", PINS, given=given, probe=False)
    url = f"http://127.0.0.1:{free_port()}"
    command = [folder / "bin" / "moto_server", "-H", "127.0.0.1", "-p", url.rpartition(":")[2]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_true(lambda: _made(url), "the S3 server has a bucket", patience_seconds=120)
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "tierscope",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def _made(url: str) -> bool:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/{BUCKET}", method="PUT"), timeout=5
        ) as done:
            return done.status == 200
    except OSError:
        return False
