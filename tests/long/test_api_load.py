"""An operator's polls, 200 a second, while the collector beside the API takes in a deployment's traffic."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from tests.integration.test_demo import wait_for
from tests.long_sample import SAMPLED
from tests.processes import running

pytestmark = pytest.mark.long

RATE = 200.0
CONNECTIONS = 40
SECONDS = 10.0 if SAMPLED else 30.0
PATH = "/v1/recommendations/default/demo"


@pytest.fixture
def demo(tmp_path):
    """A whole deployment whose traffic goes on for longer than it is asked, and what it says."""
    said = tmp_path / "said"
    with (
        said.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tierscope.cli", "demo", "--duration", str(4 * SECONDS + 150)],
            stdout=subprocess.DEVNULL,
            stderr=log,
        ) as process,
    ):
        yield process, said
        process.send_signal(signal.SIGINT)


def api_in(said: Path) -> str | None:
    """The address that the demo prints."""
    found = re.search(r"^api +(http://\S+)", said.read_text("utf-8"), re.MULTILINE)
    return found.group(1) if found else None


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def polls(url: str, tag: str | None, seconds: float) -> tuple[list[float], Counter[int]]:
    """Ask at fixed times, whether or not earlier ones are answered: seconds from when each was due."""
    parts = urlsplit(url)
    condition = "" if tag is None else f"If-None-Match: {tag}\r\n"
    request = f"GET {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n{condition}\r\n".encode()
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection(parts.hostname, parts.port))
    took, statuses = [], Counter[int]()

    async def one(due: float) -> None:
        reader, writer = await free.get()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length:
            await reader.readexactly(int(length.group(1)))
        took.append(time.perf_counter() - due)
        statuses[int(head.split(b" ", 2)[1])] += 1
        free.put_nowait((reader, writer))

    start = time.perf_counter()
    tasks = []
    for number in range(int(RATE * seconds)):
        due = start + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.ensure_future(one(due)))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait()[1].close()
    return took, statuses


def test_polls_are_answered_while_traffic_comes_in(demo):
    """No error, whole documents and unchanged ones; prints what they took."""
    process, said = demo
    url = wait_for(lambda: api_in(said), "the API's address")
    wait_for(lambda: httpx.get(url + PATH, timeout=60).status_code == 200 or None, "advice")
    serve = next(iter(running(process.pid, "serve")))
    stored = stored_tokens(url)
    for name, tag in (("the whole document", None), ("with its tag", "*")):
        before, began = cpu_seconds(serve), time.perf_counter()
        took, statuses = asyncio.run(polls(url, tag, SECONDS))
        told(name, took, (cpu_seconds(serve) - before) / len(took), len(took) / (time.perf_counter() - began))
        assert statuses == {200 if tag is None else 304: int(RATE * SECONDS)}
    assert stored_tokens(url) > stored, "nothing came in meanwhile"


def stored_tokens(url: str) -> int:
    answer = httpx.get(f"{url}/v1/totals/default/demo", timeout=60).json()
    return int(answer["records"]["prompt"])


def told(name: str, took: list[float], processor_seconds: float, rate: float) -> None:
    half, nearly_all, slowest = np.quantile(took, (0.5, 0.99, 1.0)) * 1000
    print(
        f"\n{name}: {len(took)} polls, {rate:.0f}/s, median {half:.1f} ms, 99 % {nearly_all:.1f} ms, ", end=""
    )
    print(f"most {slowest:.0f} ms; {processor_seconds * 1000:.2f} ms of the API's processor each; ", end="")
    print(f"load {os.getloadavg()[0]:.0f}")
