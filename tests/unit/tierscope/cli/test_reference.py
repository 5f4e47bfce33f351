"""The reference pages hold every row of the tables, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from dashboards.rules.render import alerts, recordings
from tierscope.cli import reference
from tierscope.cli.settings_fields import kind_text, sections
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.settings import Settings, documented
from tierscope.registry.metrics import METRICS
from tierscope.registry.spans import SPANS


def rows(page: str) -> list[list[str]]:
    """Cells of every table row of a page, without headers and rulers."""
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_metrics_page_lists_the_table():
    """Name, kind, labels, help and question of every metric, in table order."""
    assert rows(reference.metrics_page()) == [
        [
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels) or "none",
            metric.help,
            metric.answers,
        ]
        for metric in METRICS
    ]


def test_the_spans_page_lists_the_table():
    """Key, type and help of every attribute of every span."""
    assert rows(reference.spans_page()) == [
        [f"`{attribute.key}`", attribute.value_type.__name__, attribute.help]
        for span in SPANS
        for attribute in span.attributes
    ]


def test_the_rules_page_lists_the_tables():
    """Every alert with a runbook that is there, every recorded series."""
    page = reference.rules_page()

    links = re.findall(r"\[`(\w+)`\]\((.+?)\)", page)
    assert [name for name, _ in links] == [alert.name for alert in alerts()]
    assert [name for name, *_ in rows(page)] == [f"`{rule.record}`" for rule in recordings()]


def test_links_of_the_rules_page_lead_to_runbooks(repository):
    """Relative to the page, so that they open wherever the tree is shown."""
    for target in re.findall(r"\]\((.+?)\)", reference.rules_page()):
        assert (repository / "docs/reference" / target).is_file(), target


def test_the_settings_page_documents_every_setting():
    """No setting without a sentence, nested ones and the deployment's included."""
    listed = rows(reference.settings_page())

    assert len(listed) == sum(len(section.fields) for section in sections(Settings))
    assert all(doc.endswith(".") for *_, doc in listed)


def test_sections_are_named_by_their_place_in_the_file():
    """A list's section describes one entry of it."""
    paths = [section.path for section in sections(Settings)]

    assert paths[0] == ""
    assert {"exporter", "exporter.engines[]", "collector.deployments[].tiers[]", "api"} <= set(paths)
    assert paths.index("exporter") < paths.index("exporter.engines[]") < paths.index("collector")


def test_a_section_without_a_default_is_required():
    """A settings type nested by value says so."""

    @dataclass(frozen=True)
    class Inner:
        """Inside."""

        size_bytes: int = documented("How large.")

    assert kind_text(Inner) == "section"
    assert kind_text(tuple[Inner, ...]) == "list of section"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (str, "text"),
        (int | None, "whole number"),
        (tuple[str, ...], "list of text"),
        (
            RoutingPolicy,
            "one of `roundrobin`, `session`, `prefixaware`, `kvaware`, `gateway`, `none`, `unknown`",
        ),
    ],
)
def test_types_are_told_in_words(hint, words):
    """The reader of a settings file need not know Python."""
    assert kind_text(hint) == words


def test_a_type_no_file_can_hold_is_refused():
    """A setting of a type we cannot print cannot be published either."""
    with pytest.raises(TypeError, match="complex"):
        kind_text(complex)


def test_a_bar_in_a_cell_does_not_break_the_table():
    """Markdown would read it as a column."""
    assert reference.table(("a",), [("l0|l1",)]).splitlines()[-1] == "| l0\\|l1 |"
