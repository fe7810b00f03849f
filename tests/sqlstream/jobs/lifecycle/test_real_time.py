"""What ``SET 'execution.latency' = 'real-time'`` refuses, by name and before Spark starts."""

from __future__ import annotations

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.jobs.lifecycle import real_time
from sqlstream.jobs.reports.progress import Progress, advanced, progress_from_json
from sqlstream.results import latency_text
from sqlstream.session import Session

_TOPIC = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'h:1', 'kafka.client' = 'spark', 'topic' = '{}'"
_ROW = "k INT, v STRING, at TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR at AS at"
_LOW = "SET 'execution.latency' = 'low'"


def topic(name: str, columns: str, more: str) -> str:
    return f"CREATE TABLE {name} ({columns}) WITH ({_TOPIC.format(name)}, {more})"


@pytest.fixture
def session() -> Session:
    session = Session()
    for name in ("t", "u"):
        session.sql(topic(name, _ROW, "'format' = 'json'"))
    session.sql(topic("ends", "k INT", "'format' = 'json', 'scan.bounded.mode' = 'latest-offset'"))
    session.sql(topic("of_avro", "k INT", "'format' = 'avro'"))
    session.sql(topic("o", "k BIGINT, v STRING", "'format' = 'json'"))
    session.sql(topic("changes", "k BIGINT, v STRING", "'format' = 'debezium-json'"))
    sums = topic("sums", "v STRING PRIMARY KEY NOT ENFORCED, k BIGINT", "'key.format' = 'raw', 'value.format' = 'json'")
    session.sql(sums.replace("'kafka'", "'upsert-kafka'"))
    session.sql(topic("others", "k BIGINT, v STRING", "'format' = 'debezium-json'"))
    session.sql(topic("lenient", "k INT", "'format' = 'json', 'on-error' = 'dead-letter:dead'"))
    session.sql("CREATE TABLE dead (record BINARY, error STRING) WITH ('connector' = 'print')")
    session.sql("CREATE TABLE p (k BIGINT, v STRING) WITH ('connector' = 'print')")
    tasks = topic("by_tasks", "k INT, v STRING", "'format' = 'json'").replace(" 'kafka.client' = 'spark',", "")
    session.sql(tasks)
    session.sql("CREATE FUNCTION twice(v STRING) RETURNS STRING LANGUAGE PYTHON AS $$ return v + v $$")
    session.sql("SET 'execution.latency' = 'real-time'")
    return session


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT k FROM t", "real-time mode gives no rows to the caller of a query"),
        ("INSERT INTO p SELECT k, v FROM t", 'real-time mode writes no tables of the connector "print"'),
        ("INSERT INTO o SELECT k, v FROM by_tasks", 'table "by_tasks" is read and written by Python tasks'),
        ("INSERT INTO by_tasks SELECT k, v FROM t", 'table "by_tasks" is read and written by Python tasks'),
        ("INSERT INTO o SELECT k, 'x' FROM ends", 'table "ends" has an end'),
        ("INSERT INTO o SELECT k, 'x' FROM of_avro", '"format" = "avro" is the work of Python tasks'),
        ("INSERT INTO others SELECT k, v FROM changes", '"format" = "debezium-json" is the work of Python tasks'),
        ("INSERT INTO changes SELECT COUNT(*), v FROM t GROUP BY v", 'table "changes" needs rows as they were before'),
        (
            "INSERT INTO sums SELECT v, COUNT(*) AS n FROM t GROUP BY v HAVING COUNT(*) > 1",
            "WHERE or HAVING over rows that are updated is not executed",
        ),
        (
            "INSERT INTO sums SELECT v, COUNT(*) FROM (SELECT v, k, COUNT(*) AS n FROM t GROUP BY v, k) GROUP BY v",
            "an aggregate over rows that are updated is not executed",
        ),
        (
            "INSERT INTO sums SELECT v, COUNT(*) FROM (SELECT DISTINCT v, k FROM t) GROUP BY v",
            "an aggregate over rows that are updated is not executed",
        ),
        ("INSERT INTO sums SELECT v, COUNT(*) FROM t GROUP BY CUBE (v)", "is not executed in real time"),
        ("INSERT INTO changes SELECT k, v FROM sums", 'real-time mode reads no tables of the connector "upsert-kafka"'),
        (
            "INSERT INTO o SELECT COUNT(*), v FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE) "
            "GROUP BY v, window_start, window_end",
            "an aggregate of windows is not executed in real time",
        ),
        ("INSERT INTO changes SELECT t.k, u.v FROM t JOIN u ON t.k = u.k", "a join of streams is not executed"),
        ("INSERT INTO o SELECT k, v FROM t ORDER BY at", "ORDER BY is not executed in real time"),
        ("INSERT INTO o SELECT k, v FROM t UNION ALL SELECT k, v FROM t", 'table "t" is read twice'),
        ("INSERT INTO o SELECT k, 'x' FROM lenient", 'real-time mode writes no rows aside, into table "dead"'),
        ("INSERT INTO o SELECT k, CAST(pt AS STRING) FROM t", '"pt" of table "t", the time of processing, stands'),
        ("INSERT INTO o SELECT k, CAST(NOW() AS STRING) FROM t", "the clock (CURRENT_TIMESTAMP, NOW and the like)"),
        ("INSERT INTO o SELECT k, v FROM t WHERE at > CURRENT_TIMESTAMP", "the clock (CURRENT_TIMESTAMP, NOW and the "),
        ("INSERT INTO o SELECT k, twice(v) FROM t", 'function "twice" is Python, which real-time mode does not call'),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT k, v FROM t; INSERT INTO o SELECT k, v FROM u; END",
            "EXECUTE STATEMENT SET is not executed in real time",
        ),
    ],
)
def test_what_real_time_mode_does_not_execute_is_named(session: Session, statement: str, said: str):
    with pytest.raises(UnsupportedError, match="SS369: ") as refused:
        session.sql(statement)
    assert said in str(refused.value) and "HINT: " in str(refused.value)


def test_settings_that_do_not_fit_epochs_of_one_length_are_refused(session: Session):
    copy = "INSERT INTO o SELECT k, v FROM t"
    session.sql("SET 'execution.checkpointing.interval' = '1 s'")
    with pytest.raises(UnsupportedError, match=r"SS369: 'execution.checkpointing.interval' = '1 s' is too short"):
        session.sql(copy)
    session.sql("SET 'execution.checkpointing.interval' = '10 s'; SET 'execution.checkpointing.min-pause' = '1 s'")
    with pytest.raises(UnsupportedError, match=r"SS369: 'execution.checkpointing.min-pause' has no effect"):
        session.sql(copy)


def test_a_pyspark_without_real_time_mode_is_named(session: Session, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(real_time, "has_real_time", lambda: False)
    with pytest.raises(UnsupportedError, match=r"SS369: PySpark [0-9.]+ has no real-time mode") as refused:
        session.sql("INSERT INTO o SELECT k, v FROM t")
    assert _LOW in str(refused.value)


def test_the_latency_of_an_epoch_is_that_of_the_slowest_table():
    def report(batch: int, **tables: tuple[int | None, int | None, int | None]) -> dict[str, object]:
        ages = {
            f"latency/{table}": dict(zip(("median_ms", "p99_ms", "most_ms"), values, strict=True))
            for table, values in tables.items()
        }
        return {"batchId": batch, "batchDuration": 5000, "stateOperators": [], "observedMetrics": ages}

    progress = advanced(Progress(), [report(0, t=(3, 9, 1200), u=(4, 8, 90))])
    assert progress.latency_ms == (3, 9, 1200)
    assert latency_text(progress.latency_ms) == "3 ms, 99 % within 9 ms, at most 1,200 ms"
    silent = advanced(progress, [report(1, t=(None, None, None))])
    assert silent.latency_ms == progress.latency_ms
    assert progress_from_json({"latency_ms": [3, 9, 1200]}).latency_ms == (3, 9, 1200)
