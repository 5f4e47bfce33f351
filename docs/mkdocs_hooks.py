"""What MkDocs must know of this repository: pages that live beside the code, links that leave the site."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
BOARDS = "<!-- boards -->"


def places() -> dict[Path, str]:
    """Where each page of the repository stands in the site."""
    found = {path: path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    found |= {path: f"runbooks/{path.name}" for path in (ROOT / "dashboards/runbooks").glob("*.md")}
    return found | {
        ROOT / "README.md": "index.md",
        ROOT / "CHANGELOG.md": "changelog.md",
        ROOT / "CONTRIBUTING.md": "contributing.md",
        ROOT / "exporters/probe/README.md": "reference/probe.md",
        ROOT / "deploy/reference/README.md": "reference-deployment.md",
        ROOT / "deploy/operator-example/README.md": "operator-example.md",
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the folders of pages that grow by themselves: runbooks and decisions."""
    pages = sorted(places().values())
    for title, folder in (("Runbooks", "runbooks/"), ("Decisions", "decisions/")):
        config.nav.append({title: [place for place in pages if place.startswith(folder)]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live beside the code."""
    for path, place in places().items():
        if not path.is_relative_to(DOCS):
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links of the repository into links of the site; what is no page keeps its path as text."""
    known = places()
    [source] = [path for path, place in known.items() if place == page.file.src_uri]
    if BOARDS in markdown:
        markdown = markdown.replace(BOARDS, boards())

    def target(found: re.Match[str]) -> str:
        text, link, anchor = found[1], found[2], found[3] or ""
        if "://" in link or link.startswith("mailto:"):
            return found[0]
        there = (source.parent / link).resolve()
        if there in known:
            here = Path(page.file.src_uri).parent
            return f"[{text}]({Path(os.path.relpath(known[there], here)).as_posix()}{anchor})"
        if there.is_relative_to(DOCS) and there.is_file():
            return f"[{text}]({os.path.relpath(there.relative_to(DOCS), Path(page.file.src_uri).parent)})"
        path = there.relative_to(ROOT).as_posix()
        return text if path in text else f"{text} (`{path}`)"

    return LINK.sub(target, markdown)


def boards() -> str:
    """Every board with its panels and the question that each answers."""
    parts = []
    for path in sorted((ROOT / "dashboards/generated/classic").glob("*.json")):
        board = json.loads(path.read_text("utf-8"))
        rows = [(one["title"], one.get("description", "")) for one in panels(board) if one["type"] != "row"]
        lines = [f"| {title} | {' '.join(says.split())} |" for title, says in rows]
        parts.append(f"## {board['title']}\n\n| panel | what it answers |\n|---|---|\n" + "\n".join(lines))
    return "\n\n".join(parts)


def panels(board: dict) -> list[dict]:
    """All panels, also those in rows that are folded."""
    return [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", ()))]
