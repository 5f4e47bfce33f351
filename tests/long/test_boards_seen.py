"""Every board drawn by Grafana's own components from a real Prometheus, for people to look at.

`TIERSCOPE_PICTURES` names the folder they are kept in. Needs Node with npm, and Chromium.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from dashboards.boards import BOARDS
from tests.browser import Browser
from tests.engine_pages import EnginePages
from tests.grafana_page import ServedFolder, built_page
from tests.populated_page import populated_samples
from tests.prometheus_server import PrometheusServer, shipped_configuration, wait_until
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.telemetry.prometheus import MetricsServer

pytestmark = [pytest.mark.long, pytest.mark.system]

SCRAPE_SECONDS = 5
SCRAPES = 16
"""How often Prometheus scrapes before boards are drawn."""
SHOWN_MINUTES = 2
WIDTH = 1600
CUT_OFF = """
[...document.querySelectorAll('[role=columnheader] *, [role=cell] *, [role=cell]')]
  .filter((box) => box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText)
"""
"""What stands in a table and does not fit its column."""
OUT_OF_SIGHT = """
[...document.querySelectorAll('[data-testid*="VizLegend series"]')].filter((name) => {
  let box = name.parentElement;
  while (box && getComputedStyle(box).overflowY === 'visible') box = box.parentElement;
  return box && name.getBoundingClientRect().bottom > box.getBoundingClientRect().bottom + 1;
}).map((name) => name.innerText)
"""
"""What a legend names and one sees only after scrolling in it."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Where the pictures go."""
    folder = os.environ.get("TIERSCOPE_PICTURES")
    found = Path(folder) if folder else tmp_path_factory.mktemp("pictures")
    found.mkdir(parents=True, exist_ok=True)
    return found


@pytest.fixture(scope="module")
def site(repository, tmp_path_factory):
    """The page, and beside it every board."""
    page = ServedFolder(built_page(repository / ".cache"))
    yield page
    page.close()


@pytest.fixture(scope="module")
def prometheus(repository, system_binary, tmp_path_factory):
    """Filled by a page with every metric and by those of engines; recorded series come with time."""
    started = time.monotonic()
    page = MetricsServer("127.0.0.1", 0, lambda: populated_samples(time.monotonic() - started))
    engines = EnginePages(repository / "tests/fixtures/captures")
    configuration = shipped_configuration(page.url, scrape_seconds=SCRAPE_SECONDS)
    configuration["scrape_configs"] += engines.scrapes()
    server = PrometheusServer(
        system_binary("prometheus", package="prometheus"),
        configuration,
        tmp_path_factory.mktemp("prometheus"),
    )
    long_enough = f"count_over_time({REQUEST_TOKENS.name}[1h]) >= {SCRAPES}"
    wait_until(lambda: server.query(long_enough), seconds=10 * SCRAPES * SCRAPE_SECONDS, what="some history")
    yield server
    server.close()
    engines.close()
    page.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium."""
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("uid", BOARDS)
def test_a_board_is_drawn_without_an_error_and_no_panel_is_empty(
    uid, theme, site, prometheus, browser, pictures, repository
):
    """As far as Grafana's components on npm go: what its server and core add is not met here."""
    board = json.loads((repository / f"dashboards/generated/classic/{uid}.json").read_text())
    (Path(site.folder) / f"{uid}.json").write_text(json.dumps(board))
    asked = {
        "board": f"{uid}.json", "prometheus": prometheus.url, "scrape": SCRAPE_SECONDS,
        "minutes": SHOWN_MINUTES, "theme": theme,
    }  # fmt: skip

    browser.open(f"{site.url}/index.html?{urlencode(asked)}", width=WIDTH, ready="window.settled?.()")
    browser.wait("document.querySelectorAll('canvas, table, [role=table], [data-empty]').length > 0")
    told = browser.value("window.told")
    (pictures / f"{uid}-{theme}.png").write_bytes(browser.picture())

    assert told["errors"] == []
    assert told["panels"]
    assert [panel["title"] for panel in told["panels"] if not panel["series"]] == []
    assert browser.value("document.querySelectorAll('[data-empty]').length") == 0
    assert browser.value("document.querySelectorAll('[data-testid*=\"VizLegend series\"]').length") > 0
    assert browser.value(CUT_OFF) == []
    assert browser.value(OUT_OF_SIGHT) == []
