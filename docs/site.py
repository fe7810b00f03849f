"""Hooks of MkDocs for ``make site``: the front page is README.md, and pages outside of docs/ are part of the site.

The pages are written for readers of the repository, so links are relative to their place in it. Here they become links
between pages of the site; a link to a file that is no page becomes its path.
"""

from __future__ import annotations

import os.path
import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
FRONT, INDEX = "README.md", "docs/index.md"
_DOCS = "docs/"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|mailto:|#)([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)


@cache
def pages_outside() -> tuple[str, ...]:
    """The pages that are not in docs/, as paths in the repository."""
    paths = (p for pattern in ("*.md", "examples/*/README.md", "tests/README.md") for p in sorted(ROOT.glob(pattern)))
    return tuple(path.relative_to(ROOT).as_posix() for path in paths if path != ROOT / FRONT)


def place_on_site(path: str) -> str | None:
    """The place of a file of the repository on the site; None where it is not there."""
    if path == FRONT:
        return "index.md"
    if path.startswith(_DOCS):
        return path.removeprefix(_DOCS) if (ROOT / path).is_file() else None
    return path if path in pages_outside() else None


def place_in_repository(page: str) -> str:
    """The file of the repository that a page of the site is made of."""
    return page if page in pages_outside() else _DOCS + page


def with_links_of_site(text: str, origin: str, page: str) -> str:
    """The text of the file ``origin`` of the repository, with its links as the ``page`` of the site needs them. Blocks
    of code stay as they are.
    """

    def changed(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        path, hash_, anchor = target.partition("#")
        place = place_on_site(os.path.normpath(PurePosixPath(origin).parent / path))
        if place is None:
            return words if words.startswith("`") else f"{words} (`{path}`)"
        relative = os.path.relpath(place, PurePosixPath(page).parent)
        return f"{image}[{words}]({relative}{hash_}{anchor})"

    pieces = _FENCE.split(text)
    return "".join(piece if piece.startswith("```") else _LINK.sub(changed, piece) for piece in pieces)


def anchor(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it: links of the pages lead to the same places there and here."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


# --- hooks, by the names that MkDocs knows ----------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Anchors are those of GitHub."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages outside of docs/."""
    from mkdocs.structure.files import File  # MkDocs is in the environment of `make site` alone

    for path in pages_outside():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page with links of the site. The front page is the README, and below it the list of pages."""
    place = page.file.src_uri
    if place == "index.md":
        readme = (ROOT / FRONT).read_text(encoding="utf-8")
        listed = markdown.replace("# Documentation", "## All pages", 1)
        return "\n".join((with_links_of_site(readme, FRONT, place), with_links_of_site(listed, INDEX, place)))
    return with_links_of_site(markdown, place_in_repository(place), place)
