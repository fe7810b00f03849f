"""The SQL editor of the page over HTTP, without Spark: who may use it, what it completes, what becomes of runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from sqlstream.analysis import Planner
from sqlstream.cli import run as run_command
from sqlstream.console import editor as editing
from sqlstream.console.editor import FAILED, FINISHED, MOST_ROWS, MOST_RUNNING, STOPPED, Editor
from sqlstream.console.requests import Requests
from sqlstream.console.server import Console, ConsoleServer
from sqlstream.console.watching import Watcher
from sqlstream.local_server import Access
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.types import BIGINT
from tests.sqlstream.console.test_console import TOKEN, Clock, Served

IMAGE = "<img src=x onerror=alert(1)>"
BIDS = "CREATE TABLE bids (auction BIGINT, price DOUBLE) WITH ('connector' = 'datagen');"


class FakeJob:
    """The job of a query: gives tables until it is stopped, and waits for the test between them."""

    def __init__(self, *tables: pa.Table, endless: bool = False) -> None:
        self._tables, self._endless, self.stopped = tables, endless, Event()

    def results(self) -> Iterator[pa.Table]:
        yield from self._tables
        if self._endless:
            self.stopped.wait(10)

    def stop(self) -> None:
        self.stopped.set()


class FakeSession(Session):
    """Gives the same results for every script."""

    def __init__(self, *results: Rows | Query) -> None:
        super().__init__()
        self._results = results

    def results(self, text, args=None, *, as_table=False):
        yield from self._results


def query(job: Any, updating: bool = False) -> Query:
    kinds = (("op", BIGINT),) if updating else ()
    return Query(job, (*kinds, ("n", BIGINT)), "UTC", updating=updating, key=(0,) if updating else ())


def finished(editor: Editor, name: str | None) -> Any:
    assert name is not None
    run = editor.of(name)
    assert run is not None
    for _ in range(500):
        if run.is_over:
            return json.loads(json.dumps(run.as_json(None)))
        time.sleep(0.01)
    raise AssertionError("the run does not end")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Served, Editor]]:
    clock = Clock()
    watcher = Watcher(tuple, clock)
    editor = Editor(lambda: FakeSession(query(FakeJob(pa.table({"n": ["1", IMAGE]})))), Planner().with_ddl(BIDS))
    server = ConsoleServer(Access(0, token=TOKEN), Console(watcher, Requests(), str(tmp_path), editor))
    yield Served(tmp_path, watcher, server, clock), editor
    server.close()
    editor.close()


def send(served: Served, path: str, **fields: str) -> Any:
    status, text, _ = served.ask(f"/sql/{path}", "POST", urlencode(fields), Authorization=f"Bearer {TOKEN}")
    assert status == 200, text
    return json.loads(text)


def test_completions_know_the_scripts_and_the_text(opened):
    served, _ = opened
    text = "CREATE VIEW 𝔳 AS SELECT auction AS item FROM bids; SELECT it FROM 𝔳"
    at = text.index("it FROM") + 2
    first, *_ = send(served, "complete", text=text, at=str(at))
    assert (first["text"], first["kind"], first["start"]) == ("item", "column", at - 2)
    assert any(one["text"] == "bids" for one in send(served, "complete", text="SELECT * FROM b", at="15"))
    assert send(served, "complete", text="SELECT 1", at="9999") == send(served, "complete", text="SELECT 1", at="8")


def test_problems_have_their_line(opened):
    served, _ = opened
    (problem,) = send(served, "check", text="SELECT auction FROM bids;\nSELECT x FROM bids")
    assert problem["line"] == 2 and problem["text"].startswith('SS201: column "x" does not exist.')


def test_a_query_shows_its_rows(opened):
    served, editor = opened
    name = send(served, "run", text="SELECT 1")["run"]
    finished(editor, name)
    told = json.loads(served.page(f"/sql/runs/{name}"))
    assert (told["state"], told["columns"], told["rows"], told["total"]) == (FINISHED, ["n"], [["1"], [IMAGE]], 2)
    assert "rows" not in json.loads(served.page(f"/sql/runs/{name}?known={told['version']}"))


def test_the_newest_rows_are_shown_and_all_are_counted():
    tables = [pa.table({"n": range(i, i + 300)}) for i in (0, 300, 600)]
    editor = Editor(lambda: FakeSession(query(FakeJob(*tables))), Planner())
    told = finished(editor, editor.run("SELECT 1"))
    assert told["total"] == 900
    assert [int(n) for (n,) in told["rows"]] == list(range(900 - MOST_ROWS, 900))


def test_an_updating_result_is_its_table():
    changes = pa.table({"op": ["+I", "+I", "-D"], "n": [1, 2, 1]})
    editor = Editor(lambda: FakeSession(query(FakeJob(changes), updating=True)), Planner())
    told = finished(editor, editor.run("SELECT 1"))
    assert (told["columns"], told["rows"], told["total"]) == (["n"], [["2"]], 1)


def test_runs_are_stopped_by_their_page_and_when_nobody_looks(monkeypatch):
    jobs: list[FakeJob] = []

    def session() -> Session:
        jobs.append(FakeJob(pa.table({"n": [1]}), endless=True))
        return FakeSession(query(jobs[-1]))

    editor = Editor(session, Planner())
    names = [editor.run("SELECT 1") for _ in range(MOST_RUNNING)]
    assert editor.run("SELECT 1") is None, "no more may run"
    first = editor.of(str(names[0]))
    assert first is not None
    first.stop()
    assert finished(editor, names[0])["state"] == STOPPED
    editor.stop_forgotten()
    assert editor.run("SELECT 1") is not None, "pages that ask keep the others, and one has ended"
    monkeypatch.setattr(editing, "FORGOTTEN_S", -1.0)
    end = time.monotonic() + 10
    while len(jobs) < MOST_RUNNING + 1 or not all(job.stopped.is_set() for job in jobs):
        assert time.monotonic() < end
        editor.stop_forgotten()
        time.sleep(0.01)
    editor.close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("INSERT INTO bids SELECT * FROM bids", "SS499: the editor shows rows, and starts no jobs"),
        ("SELEC 1", "SS103: unknown statement"),
    ],
)
def test_what_cannot_run_says_why(text: str, error: str):
    editor = Editor(Session, Planner())
    told = finished(editor, editor.run(text))
    assert told["state"] == FAILED and told["error"].startswith(error) and "LINE 1" in told["error"]


def test_a_session_that_cannot_be_opened_is_an_error_of_the_run():
    def fails() -> Session:
        raise OSError("no room")

    editor = Editor(fails, Planner())
    assert finished(editor, editor.run("SELECT 1"))["error"] == "OSError: no room"


def test_nobody_edits_without_the_token_and_the_form(opened):
    served, editor = opened
    cookie = served.cookie()
    for path in ("run", "check", "complete", "runs/1/stop"):
        for headers in ({}, {"Cookie": cookie}, {"Authorization": "Bearer wrong"}):
            assert served.ask(f"/sql/{path}", "POST", urlencode({"text": "SELECT 1"}), **headers)[0] == 401
    assert served.ask("/sql/")[0] == served.ask("/sql/runs/1")[0] == 401
    assert editor.of("1") is None
    assert served.ask("/sql/run", "POST", "x" * 300_000, Cookie=cookie)[0] == 413
    page = served.ask("/sql/", Cookie=cookie)
    assert page[0] == 200 and "script-src 'nonce-" in page[2]["Content-Security-Policy"]
    assert 'href="/sql/"' in served.page("/")


def test_there_is_no_editor_unless_it_is_asked_for(tmp_path: Path, capsys):
    server = ConsoleServer(Access(0, token=TOKEN), Console(Watcher(tuple), Requests(), str(tmp_path)))
    served = Served(tmp_path, Watcher(tuple), server, Clock())
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    try:
        assert served.ask("/sql/", **bearer)[0] == served.ask("/sql/run", "POST", "text=SELECT+1", **bearer)[0] == 404
        assert "/sql/" not in served.page("/")
    finally:
        server.close()
    assert run_command(["jobs", "serve", "--dir", str(tmp_path), "--port", "0", "-e", BIDS]) == 2
    assert "give --editor" in capsys.readouterr().err


def test_scripts_of_the_editor_are_checked_at_the_start(tmp_path: Path, capsys):
    assert run_command(["jobs", "serve", "--dir", str(tmp_path), "--port", "0", "--editor", "-e", "SELECT 1"]) != 0
    assert "defines nothing" in capsys.readouterr().err
