"""Chromium without a screen, driven over its own debugging protocol: pages, what they say, how they look."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from websocket import create_connection

PATIENCE_SECONDS = 60.0
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--remote-allow-origins=*", "about:blank",
)  # fmt: skip


def chromium() -> str:
    """The browser; without it the test is skipped, and the skip says where it comes from."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed: make system")
    return found


class Browser:
    """One page of a browser of its own, which `close` ends. What the page complains of is in `complaints`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [chromium(), *ARGUMENTS, f"--user-data-dir={folder}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._socket = create_connection(self._address(folder), timeout=PATIENCE_SECONDS)
        except BaseException:
            self._end()
            raise
        self._number = 0
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _address(self, folder: Path) -> str:
        told, deadline = folder / "DevToolsActivePort", time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if told.exists() and (lines := told.read_text("utf-8").splitlines()):
                pages = httpx.get(f"http://127.0.0.1:{lines[0]}/json/list", timeout=PATIENCE_SECONDS).json()
                return next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            time.sleep(0.05)
        raise TimeoutError("Chromium does not say where it can be reached")

    def close(self) -> None:
        self._socket.close()
        self._end()

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ask(self, method: str, **parameters: object) -> dict:
        """One command of the protocol, and its answer; what is told meanwhile is kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv())
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            self._hear(told)

    def _hear(self, told: dict) -> None:
        parameters = told.get("params", {})
        match told.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"])[:500])
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning", "assert"}:
                self.complaints.append(json.dumps(parameters["args"])[:500])
            case "Network.requestWillBeSent":
                self.complaints += [
                    f"asked for {address}"
                    for address in [parameters["request"]["url"]]
                    if address != self._opened and not address.startswith("data:")
                ]

    _opened = ""

    def open(self, address: str, *, width: int, dark: bool = False, ready: str = "true") -> None:
        """Load a page at a width and colour scheme, and wait until an expression holds."""
        self.scheme(dark=dark)
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self._opened = address
        self.ask("Page.navigate", url=address)
        self.wait(f"document.readyState === 'complete' && ({ready})")

    def scheme(self, *, dark: bool) -> None:
        """What the person prefers."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def wait(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if self.value(expression):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{expression} does not hold; the page said {self.complaints}")

    def value(self, expression: str) -> object:
        """What an expression is in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(found["data"])
