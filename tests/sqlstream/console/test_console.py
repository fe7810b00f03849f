"""The pages of jobs over HTTP: what they show, who may see them, and what may be asked of jobs."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.cli import run
from sqlstream.console.requests import KINDS, Requests
from sqlstream.console.server import Console, ConsoleServer
from sqlstream.console.watching import Watcher
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import Description, Failure, JobRecord, write_record
from sqlstream.jobs.records.requests import recorded_jobs, waiting
from sqlstream.jobs.reports.progress import Progress
from sqlstream.jobs.savepoints.create import Manifest, write_manifest
from sqlstream.local_server import Access
from sqlstream.planner.explain.to_json import to_json
from sqlstream.planner.rules import optimize
from tests.planner.plans import plan
from tests.sqlstream.jobs.records import written
from tests.sqlstream.jobs.records.test_requests import answering

TOKEN = "a token of twenty-five ch"
TEXT = "INSERT INTO totals SELECT k, COUNT(*) FROM events GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND) LATE DATA TO late"


def tables(folder: Path) -> str:
    return f"""
CREATE TABLE bad (record STRING, error STRING)
    WITH ('connector' = 'filesystem', 'path' = '{folder}/bad', 'format' = 'json');
CREATE TABLE late (k STRING, v INT, ts TIMESTAMP(3))
    WITH ('connector' = 'filesystem', 'path' = '{folder}/late', 'format' = 'parquet');
CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'json', 'on-error' = 'dead-letter:bad');
CREATE TABLE totals (k STRING, s BIGINT) WITH ('connector' = 'blackhole');
"""


@dataclass
class Clock:
    time: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


@dataclass
class Served:
    """A folder with one running job, and its pages."""

    folder: Path
    watcher: Watcher
    server: ConsoleServer
    clock: Clock

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.folder / "totals")

    def write(self, record: JobRecord) -> None:
        write_record(LocalStorage(self.folder / record.name), record)
        self.watcher.look()

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of an answer."""
        port = urlsplit(self.server.url).port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def page(self, path: str) -> str:
        status, text, _ = self.ask(path, Authorization=f"Bearer {TOKEN}")
        assert status == 200, text
        return text

    def cookie(self) -> str:
        _, _, headers = self.ask("/login", "POST", urlencode({"token": TOKEN}))
        return headers["Set-Cookie"].partition(";")[0]


def running(folder: Path, progress: Progress | None = None, failures: tuple[Failure, ...] = ()) -> JobRecord:
    planned = optimize(plan(TEXT, tables(folder)))
    life = written.life(progress=progress or Progress(rows_in=7, rows_out=5, batches=1, read_by_table={"events": 7}))
    described = Description(TEXT, to_json(planned))
    return written.record(checkpoint=str(folder / "totals"), description=described, life=life, failures=failures)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    clock = Clock()
    watcher = Watcher(lambda: recorded_jobs(str(tmp_path)), clock)
    console = Console(watcher, Requests(), str(tmp_path))
    actual = Served(tmp_path, watcher, ConsoleServer(Access(0, token=TOKEN), console), clock)
    actual.write(running(tmp_path))
    yield actual
    actual.server.close()


# --- what the pages show --------------------------------------------------------------------------------------


def test_all_jobs_of_a_folder_are_listed(served: Served):
    served.write(written.record("clicks", life=written.life("FAILED", error=("SS400", "it <broke>"))))
    page = served.page("/")
    assert re.findall(r'href="/jobs/(\w+)/"', page) == ["clicks", "totals"]
    assert "7 rows in · 5 rows out" in page and "SS400: it &lt;broke&gt;" in page
    assert re.findall(r'class="state (\w+)">(\w+)', page) == [("bad", "FAILED"), ("good", "RUNNING")]


def test_a_job_has_its_plan_with_live_counts(served: Served):
    page = served.page("/jobs/totals/")
    shown = dict(re.findall(r'<b id="([^"]+)">([^<]*)</b>', page))
    told = json.loads(served.page("/jobs/totals/figures.json"))["figures"]
    assert {f["id"]: f["text"] for f in told if f["node"] is not None} == shown
    assert "7" in shown.values()
    assert "WindowAggregate" in page and "LATE DATA TO late" in page


def test_the_last_hour_is_drawn(served: Served):
    assert "Source rows per second" not in served.page("/jobs/totals/"), "there is one value to compare"
    for read in (107, 307):
        served.clock.time += 10
        served.write(running(served.folder, Progress(rows_in=read, read_by_table={"events": read})))
    page = served.page("/jobs/totals/")
    assert 'aria-label="Source rows per second: 20/s now, at most 20/s in the last hour"' in page
    assert 'id="metrics"' in page and "<svg" in served.page("/jobs/totals/live") and "<svg" in served.page("/")


def test_failures_have_hints(served: Served):
    failures = (Failure(0.0, "SS402", "a row of <b> cannot be read", "Let the option on-error skip it."),)
    served.write(running(served.folder, failures=failures))
    page = served.page("/jobs/totals/live")
    assert (
        "1970-01-01 00:00:00" in page and "a row of &lt;b&gt; cannot" in page and "Let the option on-error skip" in page
    )


def test_bad_and_late_rows_can_be_looked_at(served: Served):
    for name in ("bad", "late"):
        (served.folder / name).mkdir()
    lines = [json.dumps({"record": f"<r{i}>", "error": None}) for i in range(30)]
    (served.folder / "bad" / "part-1.json").write_text("\n".join(lines), encoding="utf-8")
    (served.folder / "bad" / "_notes").write_text("{")
    pq.write_table(pa.table({"k": ["a", "b"], "v": [1, 2]}), served.folder / "late" / "part-1.parquet")
    page = served.page("/jobs/totals/live")
    assert 'Bad rows: newest of table "bad"' in page
    assert re.findall(r"&lt;r(\d+)&gt;", page) == [str(i) for i in range(29, 9, -1)]
    late = page.partition("Late rows")[2]
    assert re.findall(r"<td>(\w+)</td><td>(\d)</td><td>NULL</td>", late) == [("b", "2"), ("a", "1")]


def test_what_cannot_be_read_here_says_why(served: Served):
    (served.folder / "bad").mkdir()
    (served.folder / "bad" / "part-1.json").write_text("{no json")
    (served.folder / "bad" / "part-1.json.gz").write_bytes(b"x")
    page = served.page("/jobs/totals/live")
    assert "Not shown here: " in page and "None." in page, "the folder of late rows does not exist yet"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [("part-1.json", b"{no json", "its files cannot be read: "), ("part-1.json.gz", b"x", "its files are compressed")],
)
def test_what_cannot_be_read_says_why(served: Served, name: str, content: bytes, reason: str):
    (served.folder / "bad").mkdir()
    (served.folder / "bad" / name).write_bytes(content)
    assert reason in served.page("/jobs/totals/live")


def test_jobs_whose_folder_is_gone_are_gone_and_come_back(tmp_path: Path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    watcher = Watcher(partial(recorded_jobs, str(folder)))
    write_record(LocalStorage(folder / "totals"), running(folder))
    watcher.look()
    assert [*watcher.jobs] == ["totals"]
    folder.rename(tmp_path / "away")
    watcher.look()
    assert not watcher.jobs
    (tmp_path / "away").rename(folder)
    watcher.look()
    assert [*watcher.jobs] == ["totals"]


def test_checkpoints_and_savepoints_are_listed(served: Served):
    served.storage.write("spark/commits/5", "12345")
    folder = served.folder / "savepoints" / "totals-1"
    folder.mkdir(parents=True)
    write_manifest(folder, Manifest("totals", "c", 4, 2, "2026-01-01T00:00:00+00:00"))
    other = served.folder / "savepoints" / "clicks-1"
    other.mkdir()
    write_manifest(other, Manifest("clicks", "c", 4, 2, "2026-01-01T00:00:00+00:00"))
    page = served.page("/jobs/totals/live")
    assert "<td>5</td>" in page and "<td>4</td>" in page and str(folder) in page and str(other) not in page
    assert "<td>2026-01-01 00:00:00</td>" in page  # as the times of checkpoints


def test_a_damaged_record_is_told_and_hides_nothing(served: Served):
    LocalStorage(served.folder / "broken").write("job.json", "{")
    served.watcher.look()
    assert "DAMAGED" in served.page("/") and "SS454" in served.page("/jobs/broken/") and "totals" in served.page("/")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.labelled = True

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass  # a path of a chart

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)
        if tag == "svg":
            self.labelled &= "aria-label" in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("path", ["/", "/jobs/totals/"])
def test_pages_are_whole_and_ask_nothing_of_other_hosts(served: Served, path: str):
    served.clock.time += 10
    served.write(running(served.folder, Progress(read_by_table={"events": 9})))
    parsed = _Tags()
    text = served.page(path)
    parsed.feed(text)
    assert parsed.open == [] and parsed.labelled
    assert not [address for address in parsed.addresses if "//" in address]
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text


# --- who may see them -----------------------------------------------------------------------------------------


PATHS = ("/", "/live", "/jobs/totals/", "/jobs/totals/live", "/jobs/totals/figures.json", "/other")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_the_token(served: Served, path: str):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{served.cookie()}0"}, {"Cookie": "=;;"}):
        status, text, _ = served.ask(path, **headers)
        assert status == 401 and "totals" not in text


def test_the_address_with_the_token_opens_the_pages_and_leaves_it_behind(served: Served):
    status, _, headers = served.ask(f"/?{urlencode({'token': TOKEN})}")
    assert (status, headers["Location"]) == (303, "/")
    assert TOKEN not in headers["Set-Cookie"] and "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
    assert served.ask("/", Cookie=headers["Set-Cookie"].partition(";")[0])[0] == 200
    assert served.ask("/?token=wrong")[0] == served.ask("/login", "POST", "token=wrong")[0] == 401


def test_another_page_cannot_embed_or_extend_them(served: Served):
    _, text, headers = served.ask("/", Cookie=served.cookie())
    (nonce,) = re.findall(r'<script nonce="([^"]+)">', text)
    policy = headers["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonce}'" in policy and "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy and headers["Referrer-Policy"] == "no-referrer"


# --- what may be asked of jobs --------------------------------------------------------------------------------


def form_of(served: Served, cookie: str) -> str:
    _, text, _ = served.ask("/jobs/totals/", Cookie=cookie)
    (form, *_) = re.findall(r'name="form" value="(\w+)"', text)
    return str(form)


def answered(served: Served) -> str:
    """The first line of the requests, once it is answered."""
    for _ in range(500):
        page = served.page("/jobs/totals/live").partition("<h2>Requests</h2>")[2]
        if "waiting for the job" not in page:
            return str(re.findall(r"<tr>(?:<td>.*?</td>){2}<td>(.*?)</td></tr>", page)[0])
        time.sleep(0.02)
    raise AssertionError("no answer")


@pytest.mark.parametrize(
    ("kind", "sent", "reply", "shown"),
    [
        ("checkpoint", ("checkpoint", None, False), 12, "epoch 12 is complete"),
        ("savepoint", ("savepoint", None, False), "/s/1", "the savepoint is /s/1"),
        ("stop", ("stop", False, False), None, "it has stopped"),
        ("stop-with-savepoint", ("stop", True, False), "/s/2", "it has stopped; the savepoint is /s/2"),
        ("drain", ("stop", True, True), "/s/3", "it has stopped; the savepoint is /s/3"),
    ],
)
def test_a_button_asks_the_process_of_the_job(served: Served, kind, sent, reply, shown):
    asked = []

    def act(request):
        asked.append((request.kind, request.savepoint, request.drain))
        return reply

    cookie = served.cookie()
    thread = answering(served.storage, act)
    status, _, headers = served.ask(
        f"/jobs/totals/{kind}", "POST", urlencode({"form": form_of(served, cookie)}), Cookie=cookie
    )
    assert (status, headers["Location"]) == (303, "/jobs/totals/")
    thread.join(10)
    assert asked == [sent]
    assert answered(served) == shown


def test_nobody_asks_without_the_token_and_the_form(served: Served):
    cookie = served.cookie()
    form = form_of(served, cookie)
    for body, headers in (
        ({"form": form}, {}),
        ({}, {"Cookie": cookie}),
        ({"form": "0" * 64}, {"Cookie": cookie}),
        ({"form": form}, {"Authorization": "Bearer wrong"}),
        ({"form": form}, {"Cookie": cookie, "Host": "example.org"}),
    ):
        status, _, _ = served.ask("/jobs/totals/stop", "POST", urlencode(body), **headers)
        assert status == (403 if "Host" in headers else 401)
    assert not waiting(served.storage, "instance-1")
    assert served.ask("/jobs/totals/stop", "POST", "x" * 5000, Cookie=cookie)[0] == 413


def test_one_request_at_a_time_and_only_what_is_possible(served: Served):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert served.ask("/jobs/totals/checkpoint", "POST", **bearer)[0] == 303
    assert served.ask("/jobs/totals/stop", "POST", **bearer)[0] == 409
    assert served.ask("/jobs/totals/restart", "POST", **bearer)[0] == 409, "there is no --start-with"
    assert (
        served.ask("/jobs/other/stop", "POST", **bearer)[0] == served.ask("/jobs/totals/x", "POST", **bearer)[0] == 404
    )
    answering(served.storage, lambda request: None).join(10)
    assert answered(served) == "no row has come yet"
    served.write(replace(running(served.folder), life=written.life("STOPPED")))
    assert served.ask("/jobs/totals/stop", "POST", **bearer)[0] == 409


def test_a_button_asks_the_job_of_its_page_and_no_other_of_that_name(served: Served):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    (job, *_) = re.findall(r'name="job" value="([^"]+)"', served.page("/jobs/totals/"))
    served.write(replace(running(served.folder), id="another"))
    assert served.ask("/jobs/totals/checkpoint", "POST", urlencode({"job": job}), **bearer)[0] == 409
    assert not waiting(served.storage, "instance-1")
    assert served.ask("/jobs/totals/checkpoint", "POST", urlencode({"job": "another"}), **bearer)[0] == 303


def test_records_and_rows_that_are_odd_do_not_hide_the_others(served: Served):
    """One record with a text where a number belongs took the list of all jobs away, and one line the page of its."""
    record = json.loads((served.folder / "totals" / "job.json").read_text(encoding="utf-8"))
    record["life"]["progress"]["rows_in"] = "many"
    (served.folder / "odd").mkdir()
    (served.folder / "odd" / "job.json").write_text(json.dumps(record), encoding="utf-8")
    (served.folder / "bad").mkdir()
    (served.folder / "bad" / "part-1.json").write_text("[1]\n", encoding="utf-8")
    served.watcher.look()
    assert re.findall(r'class="state \w+">(\w+)', served.page("/")) == ["RUNNING", "DAMAGED"]
    assert "a line is no object of JSON: [1]" in served.page("/jobs/totals/live")


def test_an_error_of_the_job_is_shown_with_its_hint(served: Served):
    def fails(request):
        from sqlstream.errors import ExecutionError

        raise ExecutionError("SS426", "no savepoint could be taken", detail="No epoch.", hint="Wait for rows.")

    thread = answering(served.storage, fails)
    served.ask("/jobs/totals/savepoint", "POST", Authorization=f"Bearer {TOKEN}")
    thread.join(10)
    assert answered(served) == "SS426: no savepoint could be taken No epoch. Wait for rows."


def test_a_job_is_started_again_by_the_command(tmp_path, monkeypatch):
    """The command writes the record of the next start, as the job would."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stopped = replace(running(tmp_path), life=written.life("STOPPED"))
    write_record(LocalStorage(tmp_path / "totals"), stopped)
    watcher = Watcher(lambda: recorded_jobs(str(tmp_path)))
    watcher.look()
    job = watcher.jobs["totals"]
    requests = Requests('sed -i s/instance-1/instance-2/ "$SQLSTREAM_CHECKPOINT/job.json"; echo "$SQLSTREAM_JOB"')
    assert requests.possible(job) == ("restart",)
    assert requests.ask("totals", "restart", job)
    (asked,) = requests.of("totals")
    for _ in range(500):
        if asked.is_over:
            break
        time.sleep(0.02)
    assert asked.error is None and asked.answer is not None and asked.answer.startswith("it is STOPPED; the log of its")
    assert Path(asked.answer.rpartition(" ")[2]).read_text() == "totals\n"
    requests = Requests("exit 3")
    assert requests.ask("totals", "restart", job)
    (asked,) = requests.of("totals")
    for _ in range(500):
        if asked.is_over:
            break
        time.sleep(0.02)
    assert asked.error is not None and asked.error.startswith('SS479: job "totals" has not been started again')


def test_every_request_has_a_button_where_it_can_be_asked(served: Served):
    page = served.page("/jobs/totals/")
    assert re.findall(r'method="post" action="([\w-]+)"', page) == [kind for kind in KINDS if kind != "restart"]
    assert "--start-with" in page


# --- the command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token", "short"], "the token of --token must have 16 characters or more"),
        (["--dir", "/no/such"], 'directory "/no/such" does not exist'),
    ],
)
def test_what_cannot_be_served_is_refused(capsys, arguments, message):
    assert run(["jobs", "serve", "--port", "0", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_command_prints_an_address_that_opens_the_pages(served: Served):
    command = [sys.executable, "-m", "sqlstream", "jobs", "serve", "--dir", str(served.folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        connection = http.client.HTTPConnection(address.netloc, timeout=10)
        connection.request("GET", f"{address.path}?{address.query}")
        assert connection.getresponse().status == 303
        connection.close()
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
