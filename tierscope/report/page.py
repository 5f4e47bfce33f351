"""The page: everything in one file, which asks no network for anything, and runs no script but its own."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

from tierscope.report import advice_sections, figure_sections
from tierscope.report.markup import Child, Html, el, join, raw
from tierscope.report.material import Material
from tierscope.report.verdict import findings_first, numbers, verdict
from tierscope.report.words import counted, time

STYLE_OF_MAPS = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
"""Where Plotly looks whether the style of its maps is there already; no policy of ours would let it in."""

Section = Callable[[Material], Iterator[Child]]

SECTIONS: tuple[tuple[str, str, Section], ...] = (
    ("advice", "Advice", advice_sections.advice),
    ("findings", "Findings", advice_sections.findings),
    ("flow", "Which tier served the tokens", figure_sections.flow),
    ("misses", "Why tokens were computed", figure_sections.misses),
    ("curves", "Hit ratio by size", figure_sections.curves),
    ("ttft", "Time to first token by tier", figure_sections.ttft),
    ("prefixes", "Shared prefixes", figure_sections.prefixes),
    ("completeness", "How complete this is", figure_sections.completeness_of_all),
)
WHAT_TO_DO = 2
"""So many sections are a column of their own where the window is wide; the others say what happened."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole HTML document, and the policy that a server should send with it: the one it carries."""

    html: str
    policy: str


def render(material: Material) -> Page:
    """Make the report of one endpoint. Without Plotly's package it has the tables and no charts."""
    return _page(f"{material.namespace}/{material.endpoint}, Tierscope", _report(material), _plotly())


def render_none(reason: str) -> Page:
    """A page that says why there is no report."""
    body = el("main", el("h1", "Tierscope"), el("p", reason, class_="verdict unknown"))
    return _page("Tierscope", body, None)


def _report(material: Material) -> Html:
    mark, sentence = verdict(material)
    sections = sections_of(material)
    first = sections[0][0]
    header = el(
        "header",
        el("p", "Tierscope report", class_="rests"),
        el("h1", f"{material.namespace}/{material.endpoint}"),
        el("p", sentence, class_=f"verdict {mark}", role="status"),
        el("p", numbers(material)),
        el("p", _made(material), class_="rests"),
        *(el("p", reason, class_="absent") for reason in material.absent),
        _others(material.others),
    )
    links = el("ul", *(el("li", el("a", title, href=f"#{name}")) for name, title, _ in sections))
    whole = tuple(
        el(
            "section",
            el("h2", title, id=f"{name}-title"),
            *section(material),
            id=name,
            aria_labelledby=f"{name}-title",
        )
        for name, title, section in sections
    )
    return join(
        (
            el("a", f"Skip to {first}", href=f"#{first}", class_="skip"),
            header,
            el("nav", links, aria_label="Sections"),
            el("main", el("div", *whole[:WHAT_TO_DO]), el("div", *whole[WHAT_TO_DO:])),
            el("footer", el("p", "Missing is said, never shown as zero. Times are UTC.", class_="rests")),
        )
    )


def sections_of(material: Material) -> tuple[tuple[str, str, Section], ...]:
    """The sections as they are shown: grave findings go before advice, and harmless ones after it."""
    advice, findings, *happened = SECTIONS
    return (findings, advice, *happened) if findings_first(material) else SECTIONS


def _made(material: Material) -> str:
    made = f"Made {time(material.read_at_unix_seconds)}"
    found = material.recommendation
    if found is None:
        return f"{made}."
    model, current = found.current.model, found.current
    return (
        f"{made}; advice of {time(found.generated_at.timestamp())}. Model {model}, "
        f"{counted(current.replicas, 'replica')}, routing {current.routing.value}."
    )


def _others(endpoints: tuple[tuple[str, str], ...]) -> Html | None:
    if not endpoints:
        return None
    links = (
        el("li", el("a", f"{namespace}/{name}", href=f"?endpoint={quote(f'{namespace}/{name}', safe='/')}"))
        for namespace, name in endpoints
    )
    return el("nav", el("ul", *links), aria_label="Other endpoints")


def _page(title: str, body: Html, plotly: str | None) -> Page:
    style = _asset("page.css")
    scripts = [] if plotly is None else [plotly, _asset("page.js")]
    policy = _policy(style, tuple(scripts))
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("link", rel="icon", href="data:,"),  # or a browser asks for one
        el("title", title),
        raw("style", style),
        *(el("template", id=name) for name in STYLE_OF_MAPS.findall(plotly or "")),
    )
    whole = el("html", head, el("body", body, *(raw("script", text) for text in scripts)), lang="en")
    return Page(f"<!doctype html>\n{whole}\n", f"{policy}; frame-ancestors 'none'")


@functools.cache
def _policy(style: str, scripts: tuple[str, ...]) -> str:
    """What a browser may do with the page: run these scripts, use this style, and nothing else at all.

    Plotly makes an empty style element of its own, which it fills by script, and empty style attributes: that
    is the second style.
    """
    allowed = " ".join(_hash(text) for text in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-hashes' {_hash(style)} {_hash('')}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@functools.cache
def _asset(name: str) -> str:
    return (files("tierscope.report") / name).read_text("utf-8")


@functools.cache
def _plotly() -> str | None:
    """Plotly's script from its package; None where the package is not installed."""
    try:
        return (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return None
