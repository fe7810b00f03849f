"""The figures of a plan from a job's records, the page that shows them, and those of jobs that have run."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sqlstream.cli import run
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import Description, JobRecord, write_record
from sqlstream.jobs.reports.counts import LookupTotals
from sqlstream.jobs.reports.plan_figures import LocalPage, PlanFigures, figures_of, page_of
from sqlstream.jobs.reports.progress import Progress
from sqlstream.planner.explain.to_json import to_json
from sqlstream.planner.node import Node
from sqlstream.planner.rules import optimize
from sqlstream.testing.spark import LocalSession
from sqlstream.udfs.lookup.metrics import ANSWERS, REQUESTS
from tests.depth import usually
from tests.planner.plans import plan
from tests.sqlstream.jobs.records import written

EVENTS = """
CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'test');
CREATE TABLE names (k STRING, name STRING) WITH ('connector' = 'test', 'role' = 'lookup');
CREATE TABLE totals (k STRING, s BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'test');
"""
WINDOWS = (
    "SELECT k, SUM(n) AS s, window_end FROM (SELECT k, COUNT(*) AS n, window_time AS at FROM events GROUP BY k, {}) "
)
TEXT = "INSERT INTO totals " + (WINDOWS + "AS f GROUP BY k, {}").format(
    "TUMBLE(ts, INTERVAL '1' SECOND)", "TUMBLE(at, INTERVAL '9' SECOND)"
)


KEYS = ("e.k", "n0.name")


def recorded(text: str, seconds: float, progress: Progress, *, status: str = "RUNNING") -> JobRecord:
    """A record as a job has written it ``seconds`` after its start."""
    life = written.life(status, heartbeat=1_700_000_000 + seconds, progress=progress)
    return written.record(description=Description(text, to_json(planned(text))), life=life)


def planned(text: str) -> Node:
    return optimize(plan(text, EVENTS))


def after(batches: int) -> Progress:
    """The progress of a chain of two windows, of which operator 1 is the lowest."""
    return Progress(
        rows_in=1000 * batches,
        rows_out=2 * batches,
        batches=batches,
        batch_ms=1500,
        state_rows=7,
        state_bytes=3 << 10,
        read_by_table={"events": 1000 * batches},
        taken_by_operator={0: 10 * batches, 1: 500 * batches},
        given_by_operator={0: 2 * batches, 1: 10 * batches},
        late_by_operator={0: 0, 1: batches},
        state_by_operator={1: (7, 3 << 10)},
    )


def texts(figures: PlanFigures) -> dict[str, str]:
    return {figure.id: figure.text for figure in figures.figures().figures}


@pytest.fixture
def measured() -> PlanFigures:
    figures = PlanFigures(recorded(TEXT, 0, after(1)))
    for seconds in range(1, 21):
        figures.take(recorded(TEXT, seconds, after(1 + seconds)))
    return figures


def test_each_operator_has_totals_and_the_rates_of_the_last_ten_seconds(measured: PlanFigures) -> None:
    shown = texts(measured)
    nodes = [type(node).__name__ for node in planned(TEXT).walk()]
    scan, upper, lower = nodes.index("Scan"), *[i for i, name in enumerate(nodes) if name == "WindowAggregate"]
    assert shown[f"{scan}.read"] == "21,000 (1,000/s)"
    assert shown["0.written"] == "42 (2.0/s)"
    assert [shown[f"{lower}.{name}"] for name in ("taken", "given", "late", "state")] == [
        "10,500 (500/s)", "210 (10/s)", "21 (1.0/s)", "7 entries, 3.0 KB",
    ]  # fmt: skip
    assert shown[f"{upper}.taken"] == "210 (10/s)"
    assert shown[f"{upper}.state"] == "with that of the operator below"
    assert (shown["job.over"], shown["job.batch_ms"]) == ("10 s", "1,500 ms")


def test_the_rates_of_a_job_that_stands_still_fade(measured: PlanFigures) -> None:
    measured.take(recorded(TEXT, 60, after(21)))
    assert texts(measured)["job.in"] == "21,000 (24/s)", "the last micro-batch, over the time since the one before"
    measured.take(recorded(TEXT, 60, after(21), status="STOPPED"))
    assert texts(measured)["job.in"] == "21,000"


def test_rates_begin_anew_with_the_job(measured: PlanFigures) -> None:
    again = recorded(TEXT, 30, after(1))
    measured.take(replace(again, life=replace(again.life, instance="instance-2")))
    assert texts(measured)["job.in"] == "1,000"


def test_what_is_not_known_yet_is_no_zero() -> None:
    shown = texts(PlanFigures(recorded(TEXT, 0, Progress())))
    assert {shown[f"{node}.taken"] for node in range(20) if f"{node}.taken" in shown} == {"–"}
    assert shown["job.over"] == "–"


def test_the_partition_that_holds_the_watermark_is_named() -> None:
    held = replace(after(1), watermark_ms=0, held_by=("events[1]",))
    assert texts(PlanFigures(recorded(TEXT, 0, held)))["job.watermark"] == "1970-01-01 00:00:00 held by events[1]"


def test_a_table_that_is_read_twice_says_that_its_rows_are_those_of_all_places() -> None:
    text = "SELECT k FROM events UNION ALL SELECT k FROM events WHERE v > 1"
    reads = [f for f in PlanFigures(recorded(text, 0, after(1))).figures().figures if f.name == "read"]
    assert len(reads) == 2
    assert all("in several places" in figure.more for figure in reads)


def test_lookups_are_numbered_from_the_top() -> None:
    joins = "".join(f" JOIN names FOR SYSTEM_TIME AS OF e.pt AS n{i} ON {key} = n{i}.k" for i, key in enumerate(KEYS))
    text = f"SELECT e.k, n1.name FROM events AS e{joins}"
    lookups = {number: LookupTotals({ANSWERS: 90 + number, REQUESTS: number}) for number in range(2)}
    figures = PlanFigures(recorded(text, 0, replace(after(1), lookups=lookups))).figures().figures
    assert [f.text for f in figures if f.name in ("asked", "requests")] == ["90", "0", "91", "1"]


def test_a_record_without_a_plan_is_told() -> None:
    with pytest.raises(SqlStreamError, match='SS488: job "totals" has no plan to show'):
        PlanFigures(written.record())


# --- the page -------------------------------------------------------------------------------------------------


def test_each_figure_stands_on_the_page_under_its_id(measured: PlanFigures) -> None:
    page = measured.page()
    on_page = dict(re.findall(r'<b id="([^"]+)">([^<]*)</b>', page))
    assert on_page == texts(measured)
    assert "<script" not in page
    assert "the last micro-batches" in page


@pytest.fixture
def served(measured: PlanFigures) -> Iterator[LocalPage]:
    answers = {"/": page_of, "/figures.json": figures_of}
    page = LocalPage(0, lambda path: answers[path](measured) if path in answers else None, "/ and /figures.json")
    yield page
    page.close()


def asked(served: LocalPage, path: str) -> str:
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {served.access.token}"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_a_served_page_asks_for_figures_of_the_same_ids(served: LocalPage, measured: PlanFigures) -> None:
    page = asked(served, "/")
    (source,) = re.findall(r'fetch\("([^"]+)"', page)
    told = json.loads(asked(served, f"/{source}"))["figures"]
    assert {figure["id"]: figure["text"] for figure in told} == texts(measured)
    assert [figure["per_second"] for figure in told if figure["id"] == "job.in"] == [1000.0]
    assert set(re.findall(r'<b id="([^"]+)">', page)) == {figure["id"] for figure in told}


def test_the_page_of_a_recorded_job_is_written(tmp_path, capsys) -> None:
    write_record(LocalStorage(tmp_path / "totals"), recorded(TEXT, 0, after(3), status="STOPPED"))
    assert run(["jobs", "plan", "totals", "--dir", str(tmp_path), "--to", str(tmp_path / "plan.html")]) == 0
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<h1>Job totals</h1>" in page and ">3,000</b>" in page
    assert run(["jobs", "plan", "totals", "--dir", str(tmp_path), "--to", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


# --- jobs that run --------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("chained", usually([True, False], True))
def test_the_figures_of_a_job_are_those_of_its_rows(tmp_path, chained: bool) -> None:
    """Ten rows of two keys in four seconds: windows of a second and key, then two of nine seconds."""
    rows = [{"k": "ab"[i % 2], "ts": f"2024-01-01 00:00:0{i % 4}.{i}"} for i in range(10)]
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    script = f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.end-of-input' = 'final';
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'pipeline.operator-chaining.enabled' = '{str(chained).lower()}';
        CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/events', 'format' = 'json');
        CREATE TABLE totals (k STRING, s BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'blackhole');
    """
    with LocalSession() as session:
        session.sql(script)
        job = session.sql(TEXT)
        assert isinstance(job, Job)
        job.wait()
        figures = PlanFigures(job.record).figures().figures
    values = [(figure.name, figure.value) for figure in figures if figure.node is not None and figure.name != "state"]
    windows = len({(row["k"], row["ts"][:19]) for row in rows})
    assert values == [
        ("written", 2),
        *(("taken", 2), ("given", 2), ("late", 0)),
        *(("taken", windows), ("given", windows), ("late", 0)),
        ("read", 10),
    ], "rows of a window and key are combined before they reach it, and all windows close at the end"
    states = [figure.text for figure in figures if figure.name == "state" and figure.node is not None]
    assert all(" entries, " in state for state in states[chained:]), states
    assert ("with that of the operator below" in states) is chained
