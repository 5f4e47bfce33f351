"""A Curvine cluster by its derived pages: names and units are the project's, every number is made up."""

from __future__ import annotations

import json
import re
from pathlib import Path

from exporters.exposition import Exposition, parse_exposition
from tierscope.domain.errors import SourceUnreadable

MASTER = "http://master:9000"


class Answers:
    """Stands in for a fetcher: answers by address; refuses what it does not have, and all while `down`."""

    def __init__(self, pages=None):
        self.pages = dict(pages or {})
        self.asked = []
        self.down = False

    def get(self, url):
        self.asked.append(url)
        if self.down or url not in self.pages:
            raise SourceUnreadable("nobody there", where=url, fix="start it")
        return self.pages[url]


def master_pages(folder: Path, base: str = MASTER, *, release: str = "main") -> dict[str, bytes]:
    """What the active master says, by address."""
    return {
        f"{base}/api/overview": (folder / "api-overview.derived.json").read_bytes(),
        f"{base}/api/workers": (folder / f"api-workers-{release}.derived.json").read_bytes(),
        f"{base}/api/config": (folder / "api-config.derived.json").read_bytes(),
        f"{base}/metrics": (folder / f"master-{release}.derived.prom").read_bytes(),
    }


def page(folder: Path, name: str, **changes: int) -> Exposition:
    """One derived page, some of its unlabelled series changed."""
    return parse_exposition(text(folder, name, **changes), where=name)


def text(folder: Path, name: str, **changes: int) -> bytes:
    """The text of one derived page, some of its unlabelled series changed."""
    found = (folder / f"{name}.derived.prom").read_text("utf-8")
    for series, value in changes.items():
        found, times = re.subn(rf"^{series} .*$", f"{series} {value}", found, flags=re.MULTILINE)
        assert times == 1, series
    return found.encode()


def workers(folder: Path, *statuses: str, lost: int = 0, **changes: object) -> bytes:
    """`/api/workers` with a worker of each status and so many lost ones; `changes` are of every worker."""
    document = json.loads((folder / "api-workers-main.derived.json").read_bytes())
    pattern = document["live_workers"][0]

    def worker(index, status):
        address = {
            **pattern["address"],
            "worker_id": index,
            "hostname": f"w{index}",
            "ip_addr": f"10.0.0.{index}",
        }
        return {**pattern, **changes, "address": address, "status": status}

    live = [worker(index, status) for index, status in enumerate(statuses)]
    gone = [worker(len(statuses) + index, "Lost") for index in range(lost)]
    return json.dumps({"live_workers": live, "lost_workers": gone}).encode()
