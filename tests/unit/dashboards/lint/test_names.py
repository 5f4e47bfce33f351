"""Metric names are spelled in the table alone."""

from __future__ import annotations

from dashboards.lint.names import PACKAGES, spelled_names


def test_no_name_is_spelled_outside_the_table(repository):
    """Renaming or retiring a metric touches one file."""
    assert list(spelled_names(repository)) == []


def test_a_planted_name_is_found_by_file_and_line(tmp_path):
    """The registry may spell it, a comment without quotes may name the package, anything else is told."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "tierscope/registry").mkdir()
    (tmp_path / "tierscope/registry/metrics.py").write_text("name='tierscope_x_total'\n")
    (tmp_path / "api/app.py").write_text(
        "import tierscope\n\nNAME = 'tierscope_x_total'\nPROBE = 'tierscope_probe'\n"
    )

    assert list(spelled_names(tmp_path)) == [
        "api/app.py:3: tierscope_x_total is spelled outside tierscope/registry"
    ]
