"""The documentation as a site: every page is in the navigation, and links between files lead to pages. No build."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site import FRONT, ROOT, pages_outside, place_in_repository, place_on_site, with_links_of_site

CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = {
    path.relative_to(ROOT / "docs").as_posix()
    for path in (ROOT / "docs").rglob("*.md")
    if path.relative_to(ROOT / "docs").parts[0] != "parts"
}


def named(entries: Any) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from named(value)


def test_every_page_is_in_the_navigation_once():
    listed = list(named(CONFIG["nav"]))
    assert sorted(listed) == sorted({*PAGES, *pages_outside()})


def test_what_is_no_page_is_left_out():
    excluded = CONFIG["exclude_docs"].split()
    kinds = {path.suffix for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert kinds - {".md", ".png", ".svg", ".txt", ".json", ".pyc"} == {
        p.removeprefix("*") for p in excluded if "*" in p
    }


@pytest.mark.parametrize("page", sorted({*PAGES, *pages_outside()}))
def test_links_of_a_page_lead_to_pages_of_the_site(page: str):
    origin = place_in_repository(page)
    text = with_links_of_site((ROOT / origin).read_text(encoding="utf-8"), origin, page)
    for target in re.findall(r"\]\((?!https?://|mailto:|#)([^)\s]+)\)", re.sub(r"(?ms)^```.*?^```", "", text)):
        place = os.path.normpath(Path(page).parent / target.partition("#")[0])
        assert place in {"index.md", *pages_outside()} or (ROOT / "docs" / place).is_file(), target


def test_links_are_those_of_the_site():
    text = "[Jobs](docs/jobs.md#savepoints), [code](sqlstream/cli/jobs.py), [web](https://x.org)\n```\n[a](b.md)\n```\n"
    assert with_links_of_site(text, FRONT, "index.md") == (
        "[Jobs](jobs.md#savepoints), code (`sqlstream/cli/jobs.py`), [web](https://x.org)\n```\n[a](b.md)\n```\n"
    )
    assert (
        with_links_of_site("[x](../../README.md)", "docs/internals/jobs.md", "internals/jobs.md") == "[x](../index.md)"
    )
    assert with_links_of_site("[x](../examples/team/README.md)", "docs/testing.md", "testing.md") == (
        "[x](examples/team/README.md)"
    )
    assert place_on_site("docs/no_such.md") is None and place_on_site("setup.py") is None


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install 'sqlstream[docs]'")
    pytest.importorskip("material", reason="Material for MkDocs is not installed: pip install 'sqlstream[docs]'")
    import subprocess
    import sys

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Two commands" in front and "All pages" in front
    assert not re.findall(r'(?:src|href)="https?://(?!www\.sphinx|squidfunk)[^"]*\.(?:js|css|woff2?)"', front)
