"""What the recorded captures hold, as the bytes a reader gets."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

from tierscope.domain.identity import EngineId

ENGINE = EngineId("serving", "chat", "pod-0", 0)


def hook_payloads(run: Path) -> list[bytes]:
    """The payloads a hook wrote in one observer run, in order."""
    data = (run / "records.msgpack").read_bytes()
    payloads = []
    while data:
        size = int.from_bytes(data[:4], "big")
        payloads.append(data[4 : 4 + size])
        data = data[4 + size :]
    return payloads


def event_payloads(path: Path) -> list[bytes]:
    """The payloads of a recorded KV-event stream, in order."""
    lines = path.read_text("utf-8").splitlines()
    return [b64decode(json.loads(line)["frames_b64"][-1]) for line in lines]


def expected(run: Path) -> dict:
    """The sums counted from a run's own files."""
    return json.loads((run / "expected.json").read_text("utf-8"))
