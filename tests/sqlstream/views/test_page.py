"""The page of served views: what it shows, to whom, and the JSON beside it."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.views.serving import Page, PlanPages, Shown, as_json, page
from tests.sqlstream.jobs.records import written
from tests.sqlstream.jobs.reports.test_plan_figures import TEXT, after, recorded

VIEW: Mapping[str, Any] = {
    "name": "totals",
    "kind": "materialized view",
    "state": "RUNNING",
    "table": "totals",
    "epoch": 12,
    "committed": "2026-01-01 00:00:00",
    "age_seconds": 1.4,
    "watermark": None,
    "rows_in": 1234567,
    "rows_out": 8,
    "rows_per_second": 1000.4,
    "restarts": 0,
    "error": None,
    "sql": "SELECT 1 < 2 AS `<script>`",
}
SHOWN = Shown("postgresql://sqlstream:******@127.0.0.1:15432/views", [VIEW])


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = tag == "td"

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.cells.append(data)


def test_a_view_is_a_line_of_the_page() -> None:
    parsed = _Texts()
    parsed.feed(page(SHOWN))
    assert parsed.cells[:9] == ["totals", "RUNNING", "12", "1 s ago", "–", "1,234,567", "8", "1,000", "0"]
    assert "script" not in parsed.tags


def test_the_page_asks_for_nothing_else_and_comes_again_by_itself() -> None:
    text = page(SHOWN)
    assert re.findall(r"(?:src|href)=\"([^\"]+)\"", text) == ["/views.json"]
    assert '<meta http-equiv="refresh"' in text


def test_an_error_is_shown_below_its_view() -> None:
    text = page(Shown("u", [{**VIEW, "state": "FAILED", "error": "SS400: <b>"}]))
    assert 'class="bad"' in text
    assert "SS400: &lt;b&gt;" in text


def test_the_json_has_all_that_is_known() -> None:
    assert json.loads(as_json(SHOWN)) == {"url": SHOWN.url, "views": [dict(VIEW)]}


@pytest.fixture
def served() -> Iterator[Page]:
    answering = Page(0, lambda: SHOWN)
    yield answering
    answering.close()


def _asked(served: Page, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=10)
    more = {} if host is None else {"Host": host}
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {served.access.token}", **more})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_served(served: Page) -> None:
    assert _asked(served, "/") == (200, page(SHOWN))
    assert _asked(served, "/views.json") == (200, as_json(SHOWN))
    assert _asked(served, "/other")[0] == 404


def test_a_view_has_a_page_of_its_plan_with_what_its_job_counts() -> None:
    plans = PlanPages()
    plans.take({"to tals": recorded(TEXT, 0, after(1)), "bare": written.record()})
    assert plans.names == {"to tals"}, "the other one has no plan"
    plans.take({"to tals": recorded(TEXT, 2, after(3))})
    shown = Shown("u", [{**VIEW, "name": "to tals"}, {**VIEW, "name": "bare"}], plans.names)
    answering = Page(0, lambda: shown, plans)
    try:
        (link,) = re.findall(r'href="(/plans/[^"]+)"', _asked(answering, "/")[1])
        assert "rows read <b" in _asked(answering, link)[1]
        status, told = _asked(answering, f"{link}figures.json")
        texts = {figure["id"]: figure["text"] for figure in json.loads(told)["figures"]}
        assert (status, texts["job.in"]) == (200, "3,000 (1,000/s)")
        assert [_asked(answering, path)[0] for path in (f"{link}other", "/plans/bare/")] == [404, 404]
    finally:
        answering.close()


def test_pages_of_other_hosts_do_not_read_it(served: Page) -> None:
    assert _asked(served, "/views.json", "example.org:80")[0] == 403


def test_a_port_that_somebody_has_is_told(served: Page) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(SqlStreamError, match=f"SS483: the page cannot be shown on port {port}"):
        Page(port, lambda: SHOWN)
