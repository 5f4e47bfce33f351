"""Text is text, whatever it looks like."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.report.markup import data, el, raw, table


class Read(HTMLParser):
    """What a browser sees of a piece of HTML: elements with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@given(st.text(), st.text())
def test_no_text_becomes_an_element_or_leaves_its_attribute(text, value):
    """One element, whose text and attribute are what was given."""
    read = Read(el("p", text, title=value))

    assert [tag for tag, _ in read.elements] == ["p"]
    assert read.elements[0][1]["title"] == value.replace("\r\n", "\n").replace("\r", "\n") or "\r" in value
    assert read.text == text or "\r" in text or "\0" in text


@given(st.text() | st.just("</script><script>alert(1)</script>"))
def test_nothing_ends_the_data_of_a_script(text):
    """Whatever is in it, there is one script, and its JSON is what was given."""
    written = data("x", {"label": text})

    assert written.count("<") == 2
    assert len(Read(written).elements) == 1


def test_a_style_that_would_end_itself_is_refused():
    """Only our own text is put there as it stands."""
    with pytest.raises(ValueError, match="ends it"):
        raw("style", "p { } </STYLE><b>")


def test_tables_name_their_rows_and_columns():
    """A caption, headings with their scope, and a place to scroll that the keyboard reaches."""
    read = Read(table("Sizes", ("tier", "size"), [("L0", "5"), ("L1", None)]))
    tags = [tag for tag, _ in read.elements]

    assert tags.count("th") == 4
    assert [attrs["scope"] for tag, attrs in read.elements if tag == "th"] == ["col", "col", "row", "row"]
    assert read.elements[0][1] == {
        "class": "scroll",
        "tabindex": "0",
        "role": "region",
        "aria-label": "Sizes",
    }
