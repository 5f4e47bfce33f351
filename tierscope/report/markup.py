"""HTML put together from elements: every text is escaped, because only elements are markup.

Names of models, endpoints and replicas, and what findings say, come from outside: they are hostile text.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

from pydantic import JsonValue

from tierscope.report.words import NOT_KNOWN


class Html(str):
    """Markup. Whatever is only `str` is text."""

    __slots__ = ()


Child = str | Html | None
VOID = frozenset({"meta", "br", "link"})


def el(tag: str, *children: Child, **attributes: str | bool | None) -> Html:
    """One element; `class_` and `aria_label` are the attributes class and aria-label, None leaves one out.

    >>> el("p", "a < b", el("b", "!"), class_="x", hidden=True, id=None)
    '<p class="x" hidden>a &lt; b<b>!</b></p>'
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name_here = name.rstrip("_").replace("_", "-")
        words.append(name_here if value is True else f'{name_here}="{html.escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Html(opening if tag in VOID else f"{opening}{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Markup one after the other; texts among it are escaped, and None is nothing."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child or "") for child in children))


def raw(tag: str, text: str) -> Html:
    """A style or script of ours as it stands; raises `ValueError` if its text would end the element."""
    if f"</{tag}" in text.lower():
        raise ValueError(f"the text of <{tag}> ends it")
    return Html(f"<{tag}>{text}</{tag}>")


def data(identity: str, value: JsonValue) -> Html:
    """Values for the page's script, as JSON that no browser runs; nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{html.escape(identity)}">{text}</script>')


def table(caption: str, titles: Iterable[str], rows: Iterable[Iterable[Child]]) -> Html:
    """A table whose first column names the rows; numbers are told by their text and set to the right."""
    cells = [tuple(row) for row in rows]
    numeric = {column for row in cells for column, cell in enumerate(row) if column and _is_number(cell)}
    head = el(
        "tr",
        *(
            el("th", title, scope="col", class_="number" if column in numeric else None)
            for column, title in enumerate(titles)
        ),
    )
    body = (
        el("tr", *(_cell(column, cell, column in numeric) for column, cell in enumerate(row)))
        for row in cells
    )
    whole = el("table", el("caption", caption), el("thead", head), el("tbody", *body))
    # Wide tables scroll by themselves, by keyboard too, and never the page.
    return el("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _is_number(cell: Child) -> bool:
    return not isinstance(cell, Html) and cell is not None and cell[:1] in set("0123456789+−≥")


def _cell(column: int, cell: Child, is_numeric: bool) -> Html:
    if column == 0:
        return el("th", cell, scope="row")
    if not _is_number(cell):
        return el("td", cell, class_="number" if is_numeric and cell == NOT_KNOWN else None)
    value, bracket, interval = str(cell).partition(" (")
    if not bracket:
        return el("td", cell, class_="number")
    # Where a table is narrow, the interval goes below its value as a whole.
    parts = (el("span", part, class_="whole") for part in (value, f"({interval}"))
    return el("td", next(parts), " ", next(parts), class_="number estimate")
