"""The pages of jobs in Chromium: they change by themselves, and work by keyboard, on a phone and in the dark."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from sqlstream.jobs.reports.progress import Progress
from tests.sqlstream.console.test_console import TOKEN, Served, running, served
from tests.sqlstream.console.test_editor import opened
from tests.sqlstream.jobs.records.test_requests import answering

__all__ = ["opened", "served"]

pytestmark = pytest.mark.long
_CHROMIUM = shutil.which("chromium")


@pytest.fixture
def page():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    if _CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        browser.close()


def test_the_editor_in_a_browser(page, opened) -> None:
    """By keyboard: it completes, says what is wrong, and shows rows as text whatever they hold."""
    served, _ = opened
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(f"{served.server.url}/?token={TOKEN}")
    page.get_by_role("link", name="SQL editor").press("Enter")
    text = page.locator("#text")
    text.press_sequentially("SELECT auc")
    page.locator("#suggestions li").first.wait_for(timeout=10_000)
    assert text.get_attribute("aria-activedescendant") == "s0"
    text.press("Enter")
    text.press_sequentially(", nope FROM bids ")
    page.get_by_text('column "nope" does not exist').wait_for(timeout=10_000)
    assert text.input_value() == "SELECT auction, nope FROM bids "
    text.press("Control+Enter")
    page.get_by_text("FINISHED, 2 rows").wait_for(timeout=10_000)
    assert page.locator("#result td").all_inner_texts() == ["1", "<img src=x onerror=alert(1)>"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and faults == []


def test_the_page_of_a_job_in_a_browser(page, served: Served) -> None:
    faults: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"{served.server.url}/?token={TOKEN}")
    assert "token" not in page.url
    page.get_by_role("link", name="totals").press("Enter")
    page.wait_for_url("**/jobs/totals/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing is cut off on a phone"
    strong = "getComputedStyle(document.documentElement).getPropertyValue('--strong').trim()"
    assert page.evaluate(strong) == "#3ddc97", "dark, as the browser asks for"

    page.locator("#properties > summary").press("Enter")
    page.locator("#properties").evaluate("e => document.activeElement.blur()")
    served.clock.time += 10
    served.write(running(served.folder, Progress(rows_in=9007, read_by_table={"events": 9007}, batches=2)))
    page.get_by_role("img", name="Source rows per second").first.wait_for(timeout=10_000)
    page.get_by_text("9,007").first.wait_for(timeout=10_000)
    assert page.locator("#properties").evaluate("e => e.open"), "what a reader has opened stays open"

    page.get_by_text("Checkpoint, savepoint, stop, restart").press("Enter")
    answering(served.storage, lambda request: 12)
    page.get_by_role("button", name="Checkpoint now").press("Enter")
    page.get_by_text("epoch 12 is complete").wait_for(timeout=10_000)

    record = running(served.folder)
    served.write(replace(record, life=replace(record.life, status="STOPPED")))
    page.get_by_text("STOPPED").first.wait_for(timeout=10_000)
    assert hosts == {served.server.url.removeprefix("http://")} and faults == []
