"""The documentation's site: it builds, its links lead somewhere, it needs no network, its commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
import typer.main

from tests.manifests import ROOT
from tierscope.cli.main import app

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "deploy/reference/README.md"]
FENCE = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Every `tierscope …` and `make …` on a page, with the page's name."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        lines = "\n".join(FENCE.findall(text)).replace("\\\n", " ").splitlines()
        lines += re.findall(r"`(tierscope [^`]+)`", text)
        for line in lines:
            words = re.search(r"(?:^(?:[A-Z_]+=\S+ )*|.* -- )((?:tierscope|make) [a-z].*)", line)
            if words:
                found.append((page.name, words[1].strip()))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, strictly built: a link of it that leads nowhere is a fault."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_with_every_page_in_it(site):
    """Also those that live beside the code."""
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}

    assert {"index.html", "install.html", "reference-deployment.html", "reference/probe.html"} <= built
    runbooks = {path.stem for path in (ROOT / "dashboards/runbooks").glob("*.md")}
    assert {f"runbooks/{name}.html" for name in runbooks} <= built


def test_the_site_needs_no_network(site):
    """No script, style, font or picture is somewhere else."""
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(https?:)?//')
    found = [path.name for path in site.rglob("*.html") if loads.search(path.read_text("utf-8"))]
    styles = [
        path.name for path in site.rglob("*.css") if re.search(r"url\(.?https?:", path.read_text("utf-8"))
    ]

    assert (found, styles) == ([], [])


def test_every_panel_is_on_the_page_about_boards(site):
    """With the question it answers."""
    page = (site / "boards.html").read_text("utf-8")

    assert page.count("what it answers") == len(list((ROOT / "dashboards/generated/classic").glob("*.json")))


def test_every_command_of_the_pages_exists():
    """A command, and each option that is written with it; make's targets too."""
    root = typer.main.get_command(app)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    wrong = []
    for page, line in commands():
        words = shlex.split(line.partition(" > ")[0].partition(" | ")[0], comments=True)
        if words[0] == "make":
            wrong += [(page, line)] if words[1].partition("=")[0] not in targets | {"PYTHON"} else []
            continue
        command, rest = root, words[1:]
        while rest and hasattr(command, "commands"):
            if rest[0] not in command.commands:
                break
            command, rest = command.commands[rest[0]], rest[1:]
        known = {
            name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
        }
        options = [word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"]
        if hasattr(command, "commands") and rest:
            wrong.append((page, line))
        wrong += [(page, line, option) for option in options if option not in {*known, "--help"}]

    assert len(commands()) > 15
    assert wrong == []
