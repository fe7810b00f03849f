"""Pictures of pages in a browser without a screen. Runs in the environment of Superset, which has playwright:

``python pictures.py`` reads from its input, as JSON, ``browser``, ``url``, ``cookies``, ``selector``, ``height``,
``pictures``, a list of files, and ``pause_s`` between them. The page is opened once, so what differs has changed by
itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from playwright.sync_api import Page, sync_playwright

_WIDTH = 900
_LIMIT_MS = 180_000


def take(asked: dict[str, Any]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=asked["browser"], args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": _WIDTH, "height": asked["height"]})
        context.add_cookies(
            [{"name": name, "value": value, "url": asked["url"]} for name, value in asked["cookies"].items()]
        )
        page = context.new_page()
        page.goto(asked["url"], timeout=_LIMIT_MS)
        _settle(page, asked["selector"])
        for number, path in enumerate(asked["pictures"]):
            if number:
                page.wait_for_timeout(asked["pause_s"] * 1_000)
            page.screenshot(path=path)
        browser.close()


def _settle(page: Page, selector: str) -> None:
    """Until what is asked for is there and has been drawn."""
    page.wait_for_selector(selector, timeout=_LIMIT_MS)
    page.wait_for_timeout(3_000)


if __name__ == "__main__":
    take(json.load(sys.stdin))
