"""Growing pages of engines for a Prometheus to scrape: derived ones of vLLM, recorded ones of LMCache."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.page_server import PageServer
from tests.vllm_pages import RELEASES, Page, Request

REQUESTS = (
    Request(1000, l0=400, host=200, disk=100),
    Request(500, l0=100, ttft=0.7, queue=0.4),
    Request(2000, disk=500, ttft=1.2),
)
"""What every engine serves again and again."""

ODD_ENDINGS = {"no-ending": "", "two-endings": "_total_total"}
"""What clients and relays make of a counter's name."""

RECORDED = {
    "lmcache-server": "mp_pull/metrics.txt",
    "lmcache-server-of-vllm": "mp_vllm_cpu/lmcache_metrics.txt",
    "lmcache-inside": "inproc_fs/metrics.txt",
}
GROWS = re.compile(r"^(\S+?_(?:total|bucket|count|sum)(?:{[^}]*})? )(\S+)$", re.MULTILINE)


def vllm_page(name: str, seconds: float) -> bytes:
    """The page of a release, or of the newest with an odd ending, after so many seconds."""
    release = RELEASES.get(name) or RELEASES["0.33"]
    served = list(REQUESTS) * (2 + int(seconds))
    page = Page(release, {"0": served}, total=ODD_ENDINGS.get(name, "_total"), running=2)
    return page.text().encode()


def grown(recorded: str, seconds: float) -> bytes:
    """A recorded page on which every counter has grown by its own value each second."""
    return GROWS.sub(lambda line: f"{line[1]}{float(line[2]) * (1 + seconds)}", recorded).encode()


class EnginePages:
    """Serves a page for each name on a path of its own, `/name`."""

    def __init__(self, captures: Path) -> None:
        recorded = {name: (captures / "lmcache" / path).read_text("utf-8") for name, path in RECORDED.items()}
        self._pages: dict[str, Callable[[float], bytes]] = {
            **{name: lambda at, name=name: vllm_page(name, at) for name in (*RELEASES, *ODD_ENDINGS)},
            **{name: lambda at, text=text: grown(text, at) for name, text in recorded.items()},
        }
        self._started = time.monotonic()
        self._server = PageServer()
        self._server.pages = self  # type: ignore[assignment]  # answers `get` alone, as asked

    def get(self, path: str) -> bytes | None:
        """The page as it stands now."""
        page = self._pages.get(path.removeprefix("/"))
        return None if page is None else page(time.monotonic() - self._started)

    def scrapes(self) -> list[dict[str, object]]:
        """Prometheus' scrape configurations: each page a target whose `instance` is its name."""
        target = self._server.url.removeprefix("http://")
        return [
            {
                "job_name": f"engine {name}",
                "metrics_path": f"/{name}",
                "static_configs": [
                    {"targets": [target], "labels": {"instance": name, "namespace": "serving"}}
                ],
            }
            for name in self._pages
        ]

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
