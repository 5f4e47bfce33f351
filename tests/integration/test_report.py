"""The report in a real browser, as the API serves it: it draws, fits, and can be read without a mouse."""

from __future__ import annotations

from itertools import pairwise

import pytest

from api.app import create_app
from tests import workloads as w
from tests.browser import Browser
from tests.reports import known_store
from tests.served import served
from tierscope.report.page import SECTIONS

pytestmark = pytest.mark.system

DRAWN = "document.documentElement.dataset.drawn === 'yes'"
WIDTHS = (400, 900, 1600)
UNDRAWN = "[...document.querySelectorAll('.chart')].filter(c => !c.querySelector('svg')).map(c => c.id)"
WIDE = """
[...document.querySelectorAll('body *')]
  .filter(n => n.checkVisibility() && !n.closest('.scroll, svg, .skip'))
  .filter(n => n.getBoundingClientRect().right > innerWidth + 1).map(n => n.tagName + n.className)
"""
CONTRAST = """
(() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => rgb.map(channel).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parts = (css) => css.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const low = [];
  const texts = "p, h1, h2, h3, h4, li, a, th, td, caption, code, button, summary, .badge";
  for (const node of document.querySelectorAll(texts)) {
    if (!node.checkVisibility()) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color).slice(0, 3)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${node.tagName} ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`);
  }
  return low;
})()
"""


@pytest.fixture(scope="module")
def url():
    """The API over an endpoint of which everything is known."""
    with served(create_app(known_store(), lambda: w.START + 3600.0)) as address:
        yield f"{address}/"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_draws_and_fits(browser, url, width, dark):
    """Every chart is drawn, nothing is wider than the window, and nobody is asked for anything."""
    browser.open(url, width=width, dark=dark, ready=DRAWN)
    assert browser.value("document.querySelectorAll('.chart').length") == 7
    assert browser.value(UNDRAWN) == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.value(WIDE) == []
    assert browser.value(CONTRAST) == []
    assert browser.complaints == []


def test_it_follows_what_the_person_prefers(browser, url):
    """Changed while it is open, charts included."""
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('#misses-chart text').style.fill"
    browser.open(url, width=900, ready=DRAWN)
    light = browser.value(f"[{paper}, {ink}]")
    browser.scheme(dark=True)
    browser.wait(f"{ink} !== '{light[1]}'")

    assert light[0] == "rgb(255, 255, 255)"
    assert browser.value(paper) != light[0]


def test_it_can_be_read_without_seeing_or_a_mouse(browser, url):
    """Landmarks with their headings, charts with their words, and a key that leads to what comes first."""
    browser.open(url, width=900, ready=DRAWN)
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    told = [
        (one["role"]["value"], one.get("name", {}).get("value", "")) for one in tree if not one["ignored"]
    ]
    roles = [role for role, _ in told]

    assert {"banner", "main", "contentinfo", "navigation", "status"} <= set(roles)
    assert [name for role, name in told if role == "region" and name in {t for _, t, _ in SECTIONS}] == [
        title for _, title, _ in SECTIONS
    ]
    assert len([name for role, name in told if role in {"image", "img"} and name]) >= 7
    levels = browser.value("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    browser.key("Tab", 9)
    focused = browser.value(
        "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]"
    )
    assert focused == ["Skip to advice", "solid"]


def test_a_patch_can_be_copied_and_a_table_opened(browser, url):
    """The button says that it did; where a clipboard is refused the text is selected."""
    browser.open(url, width=900, ready=DRAWN)
    browser.value("document.querySelector('.copy button').click()")
    browser.wait("['copied', 'selected'].includes(document.querySelector('.copy button').textContent)")
    browser.value("document.querySelector('#flow summary').click()")

    assert browser.value("document.querySelector('#flow table').checkVisibility()")
