"""Run a testbed alone: one JSON line with its addresses on stdout, then until interrupted or told to end.

    python -m tierscope.testbed --duration 3600 --speed 120

For people who work on what reads it; `tierscope demo` is for everyone else.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from types import FrameType

import msgspec

from tierscope.testbed import Testbed, TestbedConfig


def main() -> None:
    """Start, print where everything is, wait for the end or a signal, print what was sent."""
    parser = argparse.ArgumentParser(
        prog="python -m tierscope.testbed", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--duration", type=float, help="virtual seconds of traffic; none: for ever")
    parser.add_argument("--speed", type=float, default=120.0, help="virtual seconds a second")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--linger", action="store_true", help="stay after the last request, to be read")
    options = parser.parse_args()
    config = TestbedConfig(
        duration_seconds=options.duration,
        speed=options.speed,
        replicas=options.replicas,
        seed=options.seed,
    )
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with Testbed(config) as testbed:
        _say({"ready": True, "settings": testbed.settings(), "deployment": testbed.deployment()})
        while not stopped.is_set() and (options.linger or not testbed.finished):
            stopped.wait(0.1)
        _say({"finished": testbed.finished, "sent": testbed.sent()})


def _say(message: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(msgspec.json.encode(message).decode(), flush=True)


if __name__ == "__main__":
    main()
