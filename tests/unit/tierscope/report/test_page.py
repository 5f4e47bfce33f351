"""The page as text: complete, alone, and safe from what it shows."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.reports import known, unknown
from tests.unit.tierscope.advice.test_afterwards import SEEN
from tests.unit.tierscope.report.test_markup import Read
from tierscope.advice.compared import Compared
from tierscope.advice.document import (
    Alternative,
    Finding,
    FindingKind,
    Forecast,
    InstanceChoice,
    Missing,
    Status,
    utc,
)
from tierscope.advice.predictions import Estimate
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Origin, Tier
from tierscope.report import page
from tierscope.report.page import SECTIONS, render, render_none

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&<b>'


@pytest.fixture(scope="module", autouse=True)
def _short_script():
    """Plotly's five megabytes say nothing here; the browser's test has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "_plotly", lambda: "/* Plotly */")
        yield


@pytest.fixture(scope="module")
def material():
    return known()


def chart_data(html: str, name: str) -> dict:
    found = re.search(rf'<script type="application/json" id="{name}-data">(.*?)</script>', html)
    assert found, name
    return json.loads(found.group(1))


def test_every_section_is_there_with_a_heading_and_a_link(material):
    """In the order one reads at night: what to do, then what happened."""
    read = Read(render(material).html)
    ids = [attrs.get("id") for tag, attrs in read.elements if tag == "section"]
    links = [attrs["href"] for tag, attrs in read.elements if tag == "a"]

    assert ids == [name for name, _, _ in SECTIONS]
    assert {f"#{name}" for name in ids} <= set(links)
    assert [tag for tag, _ in read.elements].count("h1") == 1
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in read.elements}


def test_it_is_one_file_that_asks_nobody(material):
    """No element names anything outside, and the policy allows nothing but what is in it."""
    found = render(material)
    read = Read(found.html)

    assert not [attrs for _, attrs in read.elements if "src" in attrs]
    assert not [tag for tag, _ in read.elements if tag in {"iframe", "object", "embed", "form"}]
    links = [attrs["href"] for _, attrs in read.elements if "href" in attrs]
    assert links
    assert all(link.startswith(("#", "?", "data:,")) for link in links)
    assert "default-src 'none'" in found.policy
    assert "unsafe-inline" not in found.policy
    assert "unsafe-eval" not in found.policy
    assert not [
        name for _, attrs in read.elements for name in attrs if name.startswith("on") or name == "style"
    ]


def test_the_first_sentence_says_what_to_do(material):
    """The change, what it should bring, and what is so today."""
    read = Read(render(material).html)

    assert re.search(r"Change L1 from 2.0\sMiB to [\d.]+\sMiB", read.text)
    assert material.recommendation.status is Status.RECOMMEND


@pytest.mark.parametrize(
    ("change", "mark", "words"),
    [
        ({"status": Status.NO_CHANGE, "changes": ()}, "good", "Change nothing"),
        (
            {
                "findings": (
                    Finding(FindingKind.HASH_SEED_MISMATCH, Severity.CRITICAL, "Seeds differ.", "e", "f"),
                )
            },
            "bad",
            "Look at this first: Seeds differ",
        ),
    ],
)
def test_the_first_sentence_is_the_gravest(material, change, mark, words):
    """A critical finding goes before advice."""
    html = render(replace(material, recommendation=replace(material.recommendation, **change))).html

    assert f'class="verdict {mark}" role="status">{words}' in html


def test_what_is_missing_for_advice_is_named(material):
    """What there is of it, and what it takes."""
    few = replace(
        material.recommendation,
        status=Status.INSUFFICIENT_EVIDENCE,
        changes=(),
        curves={},
        evidence=replace(
            material.recommendation.evidence, missing=(Missing("requests in the window", 12, 300, 60.0),)
        ),
    )
    text = Read(render(replace(material, recommendation=few)).html).text

    assert "No advice: what is missing is requests in the window" in text
    assert "No curves, because this is missing: requests in the window" in text


def test_earlier_advice_is_shown_with_what_became_of_it(material):
    """Whether its promise was kept; before that can be told, why not."""
    there = material.recommendation.changes[0].predicted
    kept = Compared(utc(0.0), ("tier_size:l1",), utc(60.0), None, there, SEEN, True, None)
    early = replace(kept, observed=None, kept=None, absent_because="it was in force for 3 minutes")
    text = Read(render(replace(material, followed=(kept, early))).html).text

    assert "No data" in Read(render(material).html).text
    assert "yes" in text
    assert "no data, because it was in force for 3 minutes" in text


@pytest.mark.parametrize(("severity", "first"), [(Severity.INFO, "advice"), (Severity.WARNING, "findings")])
def test_grave_findings_come_before_advice(material, severity, first):
    """What one may like to know comes after it; the first link leads to what comes first."""
    finding = Finding(FindingKind.DRIFT, severity, "t", "e", "f")
    found = replace(material.recommendation, findings=(finding,))
    read = Read(render(replace(material, recommendation=found)).html)

    assert next(attrs["id"] for tag, attrs in read.elements if tag == "section") == first
    assert next(attrs["href"] for tag, attrs in read.elements if tag == "a") == f"#{first}"


def test_hostile_text_stays_text(material):
    """Names of endpoints and models, findings, patches and sources cannot add an element or an attribute."""
    found = material.recommendation
    finding = Finding(FindingKind.DRIFT, Severity.WARNING, HOSTILE, HOSTILE, HOSTILE, found.changes[0].apply)
    change = replace(
        found.changes[0],
        why=HOSTILE,
        risks=(HOSTILE,),
        apply=(replace(found.changes[0].apply[0], what=HOSTILE, document={HOSTILE: HOSTILE}),),
    )
    plain = render(material).html
    hostile = render(
        replace(
            material,
            namespace=HOSTILE,
            endpoint=HOSTILE,
            others=((HOSTILE, HOSTILE),),
            absent=(HOSTILE,),
            recommendation=replace(
                found,
                findings=(finding,),
                changes=(change, *found.changes[1:]),
                current=replace(found.current, model=HOSTILE),
            ),
        )
    ).html
    elements = Read(hostile).elements

    assert [tag for tag, _ in elements].count("script") == plain.count("<script")
    assert not [tag for tag, _ in elements if tag in {"img", "b"}]
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    assert hostile.count("alert(1)") == hostile.count("alert(1)&lt;/script") + hostile.count(
        "onerror=alert(1)"
    )


def test_figures_are_the_documents(material):
    """The flow adds up to the prompts, the causes to what was computed, and points are the curves'."""
    html = render(material).html
    explanation, curves = material.explanation, material.recommendation.curves
    flow = chart_data(html, "flow")["data"][0]
    served = sum(v for s, v in zip(flow["link"]["source"], flow["link"]["value"], strict=True) if s == 0)

    assert served == explanation.prompt_tokens
    assert sum(chart_data(html, "misses")["data"][0]["x"]) == explanation.tokens[Origin.COMPUTED]
    for tier, curve in curves.items():
        drawn = {one["name"]: one for one in chart_data(html, f"curve-{tier.value}")["data"]}
        assert drawn["hit ratio by size"]["y"] == list(curve.hit_ratio)
        assert ("advised" in drawn) == (curve.recommended is not None)
        assert drawn["today"]["x"] == [curve.current.capacity_bytes]
    area = chart_data(html, "prefixes")["data"][0]
    assert len(area["ids"]) == len(explanation.prefixes) + 1


def test_every_chart_has_its_numbers_as_a_table(material):
    """For those who do not see it, and where no script runs: open until the chart is drawn."""
    html = render(material).html
    figures = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)

    assert len(figures) == 4 + len(material.recommendation.curves)
    for figure in figures:
        assert 'role="img"' in figure
        assert "<details open>" in figure
        assert "<caption>" in figure


def test_what_is_not_known_is_said_and_never_zero():
    """Each section says why it has nothing; no table shows a zero, and no chart is drawn."""
    html = render(unknown()).html
    absent = re.findall(r'<p class="absent">(.*?)</p>', html)

    assert len(absent) == len(SECTIONS)  # what became of advice is not asked where there is none
    assert all("because" in reason for reason in absent)
    assert "<figure" not in html
    assert not re.search(r"<td[^>]*>0", html)
    assert "There is no advice yet." in html


def test_a_part_that_cannot_be_read_leaves_the_others(material):
    """Its reason is told at the top."""
    html = render(
        replace(material, explanation=None, engines=None, absent=("The tokens could not be read: x.",))
    ).html

    assert "The tokens could not be read" in html
    assert 'id="curve-l1-chart"' in html
    assert 'id="flow-chart"' not in html


def test_incompleteness_is_said_with_every_figure(material):
    """A share below one is never rounded up to all."""
    less = replace(material, explanation=replace(material.explanation, completeness_ratio=0.999999))
    text = Read(render(less).html).text

    assert len(re.findall(r"records that arrived: 99.99", text)) == 4
    assert "Records that arrived: 99.99" in text


def test_two_ways_of_counting_are_set_side_by_side(material):
    """A difference between our records and the engines' counters shows."""
    more = replace(
        material.engines, prompt=material.engines.prompt + 7, computed=material.engines.computed + 7
    )
    text = Read(render(replace(material, engines=more)).html).text

    assert "−7" in text


def test_without_plotly_there_are_tables_and_no_script(material, monkeypatch):
    """The policy then allows none at all."""
    monkeypatch.setattr(page, "_plotly", lambda: None)
    found = render(material)

    assert "script-src 'none'" in found.policy
    assert not re.search(r"<script>", found.html)
    assert "<details open>" in found.html


def test_a_page_without_a_report_says_why():
    """And is a page all the same."""
    assert "because nothing" in render_none("because nothing").html
    assert "<section" not in render_none("x").html


def test_what_lies_ahead_is_said_with_its_interval(material):
    """When the pool is full, what else could be had, and on what other hardware; currency and knee named."""
    sure, dear = Estimate(0.2, 0.1, 0.3), Estimate(4.0, 3.5, 4.5)
    found = replace(
        material.recommendation,
        current=replace(material.recommendation.current, currency="EUR"),
        forecasts=(Forecast(Tier.L2, "pool", utc(86400), utc(43200), utc(129600), sure),),
        alternatives=(Alternative(None, {Tier.L1: 2.0**30}, {}, sure, sure, sure, dear, is_knee=True),),
        instances=(
            InstanceChoice("ml.a", True, 0.5, True, {Tier.L1: 2.0**30}, sure, sure, dear, ()),
            InstanceChoice("ml.b", False, 0.5, None, {}, None, None, None, ("l0_bytes",)),
        ),
    )
    text = " ".join(Read(render(replace(material, recommendation=found)).html).text.split())

    assert "is full on 1970-01-02 00:00 UTC, between 1970-01-01 12:00 UTC and 1970-01-02 12:00 UTC" in text
    assert "4.00 EUR (3.50 to 4.50)" in text
    assert "knee" in text
    assert "ml.a (now)" in text
    assert "missing: l0_bytes" in text
