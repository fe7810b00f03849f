"""Events of OpenLineage, checked against the types of its specification."""

from __future__ import annotations

import http.client
import io
import json
import time
import urllib.error
from datetime import UTC, datetime
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs import JobState, Progress
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.fields import qualified
from sqlstream.planner.rules import optimize
from sqlstream.telemetry import transports
from sqlstream.telemetry.dataset_names import DatasetName, dataset_name
from sqlstream.telemetry.lineage import LineageObserver, datasets_of, transformation_of
from sqlstream.telemetry.transports import FileTransport, HttpTransport, KafkaTransport
from sqlstream.types import BIGINT
from tests.planner.plans import plan
from tests.sqlstream.telemetry.openlineage_types import checked

TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE totals (auction BIGINT, total BIGINT, twice BIGINT) WITH ('connector' = 'test');
CREATE TABLE late (auction BIGINT, price BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'test');
"""
INSERT = """INSERT INTO totals SELECT auction, SUM(price), MAX(price) * 2 FROM bids
    GROUP BY auction, TUMBLE(ts, INTERVAL '1' MINUTE)"""


def job(state=JobState.RUNNING, exception=None, rows=0, sql=INSERT) -> Any:
    progress = Progress(rows_out=rows // 2, read_by_table={"bids": rows})
    return SimpleNamespace(
        name="totals", id="6d1a1b7e-21ff-4ad1-a2cc-9ef8a0f9b2f6", started=datetime(2026, 1, 1, tzinfo=UTC),
        plan=optimize(plan(sql, TABLES)), state=state, exception=exception, progress=lambda: progress,
    )  # fmt: skip


def events_of(*calls, interval_s=0.0):
    """The events of a life of a job; each of them is checked."""
    events: list[Any] = []
    observer = LineageObserver(events.append, "shop", INSERT, interval_s)
    for name, *arguments in calls:
        getattr(observer, name)(*arguments)
    for event in events:
        checked(json.loads(json.dumps(event)))
    return events


def test_a_job_that_finishes_has_a_start_an_end_and_events_between():
    events = events_of(
        ("on_start", job()), ("on_epochs", job(rows=10), []), ("on_end", job(JobState.FINISHED, rows=16))
    )
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in events} == {("shop", "totals")}
    assert events[0]["eventTime"] == "2026-01-01T00:00:00.000Z"
    rows = [(e["inputs"][0]["inputFacets"], e["outputs"][0]["outputFacets"]) for e in events]
    assert rows[0] == ({}, {})
    assert [(i["inputStatistics"]["rowCount"], o["outputStatistics"]["rowCount"]) for i, o in rows[1:]] == [
        (10, 5), (6, 3),
    ]  # fmt: skip
    assert events[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert events[0]["job"]["facets"]["sql"]["query"] == INSERT


def test_running_jobs_send_no_more_than_the_interval_says():
    events = events_of(("on_start", job()), *[("on_epochs", job(), [])] * 5, interval_s=60.0)
    assert [event["eventType"] for event in events] == ["START"]


def test_failures_have_their_message():
    error = ExecutionError("SS400", "it broke")
    events = events_of(("on_start", job()), ("on_failure", job(), error), ("on_end", job(JobState.FAILED, error)))
    assert [event["eventType"] for event in events] == ["START", "OTHER", "FAIL"]
    assert [event["run"]["facets"]["errorMessage"]["message"] for event in events[1:]] == ["SS400: it broke"] * 2
    assert events_of(("on_start", job()), ("on_end", job(JobState.STOPPED)))[-1]["eventType"] == "ABORT"


def test_columns_have_the_columns_that_they_are_computed_from():
    (start,) = events_of(("on_start", job()))
    (output,) = start["outputs"]
    fields = output["facets"]["columnLineage"]["fields"]
    shown = {
        column: [
            (f["namespace"], f["name"], f["field"], f["transformations"][0]["subtype"]) for f in line["inputFields"]
        ]
        for column, line in fields.items()
    }
    assert shown == {
        "auction": [("shop", "bids", "auction", "IDENTITY")],
        "total": [("shop", "bids", "price", "AGGREGATION")],
        "twice": [("shop", "bids", "price", "AGGREGATION")],
    }
    assert output["facets"]["schema"]["fields"][0] == {"name": "auction", "type": "BIGINT"}


@pytest.mark.parametrize(
    ("expression", "sources"),
    [
        ("`odd.na me`", {"odd.na me": "IDENTITY"}),
        ("`it's``q`", {"it's`q": "IDENTITY"}),
        ("CONCAT(`odd.na me`, 'odd.auction', 'odd.`it''s``q`')", {"odd.na me": "TRANSFORMATION"}),
        ("'SUM(' || `odd.na me` || `it's``q`", {"odd.na me": "TRANSFORMATION", "it's`q": "TRANSFORMATION"}),
        ("MAX(CASE WHEN auction > 1 THEN `odd.na me` END)", {"auction": "AGGREGATION", "odd.na me": "AGGREGATION"}),
    ],
)
def test_columns_with_odd_names_have_lineage_too(expression: str, sources: dict[str, str]):
    tables = """
        CREATE TABLE `o"d d` (auction BIGINT, `odd.na me` STRING, `it's``q` STRING) WITH ('connector' = 'test');
        CREATE TABLE texts (t STRING) WITH ('connector' = 'blackhole');"""
    found = datasets_of(optimize(plan(f'INSERT INTO texts SELECT {expression} FROM `o"d d`', tables)))
    lines = found.lineage["texts"]["t"]
    shown = {column: transformation_of(text, qualified(table, column))["subtype"] for table, column, text in lines}
    assert shown == sources and {table for table, _, _ in lines} == {'o"d d'}


def test_inserts_of_a_set_into_one_table_join_their_lineage():
    text = f"""EXECUTE STATEMENT SET BEGIN {INSERT};
        INSERT INTO totals SELECT auction, price, price + auction FROM bids; END"""
    (start,) = events_of(("on_start", job(sql=text)))
    (output,) = start["outputs"]
    fields = output["facets"]["columnLineage"]["fields"]
    assert [(f["field"], f["transformations"][0]["subtype"]) for f in fields["twice"]["inputFields"]] == [
        ("price", "AGGREGATION"), ("price", "TRANSFORMATION"), ("auction", "TRANSFORMATION"),
    ]  # fmt: skip


def test_tables_of_side_outputs_are_outputs_without_lineage():
    text = INSERT + " LATE DATA TO late"
    (start,) = events_of(("on_start", job(sql=text)))
    assert [(output["name"], "columnLineage" in output["facets"]) for output in start["outputs"]] == [
        ("totals", True), ("late", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("connector", "options", "namespace", "name"),
    [
        ("filesystem", {"path": "/data/in"}, "file", "/data/in"),
        ("filesystem", {"path": "file:///data/in"}, "file", "/data/in"),
        ("filesystem", {"path": "s3://lake/a/b"}, "s3://lake", "a/b"),
        ("kafka", {"properties.bootstrap.servers": "a:9092,b:9092", "topic": "t"}, "kafka://a:9092", "t"),
        ("postgres", {"url": "postgresql://me:secret@db:5433/shop"}, "postgres://db:5433", "shop.public.planes"),
        ("postgres", {"host": "db", "database": "shop", "table-name": "s.t"}, "postgres://db:5432", "shop.s.t"),
        ("jdbc", {"url": "jdbc:postgresql://db/shop"}, "postgres://db:5432", "shop.public.planes"),
        (
            "postgres-cdc",
            {"hostname": "db", "database-name": "shop", "table-name": "t"},
            "postgres://db:5432",
            "shop.public.t",
        ),
        (
            "postgres-cdc",
            {"url": "postgresql://db:5433/shop", "schema-name": "s", "table-name": "t"},
            "postgres://db:5433",
            "shop.s.t",
        ),
        ("mysql-cdc", {"hostname": "db", "database-name": "shop", "table-name": "t"}, "mysql://db:3306", "shop.t"),
        ("delta", {"path": "s3a://lake/orders/"}, "s3://lake", "orders"),
        ("delta", {"path": "/lake/orders"}, "file", "/lake/orders"),
        ("filesystem", {"path": "abfss://in@shop.dfs.core.windows.net/a"}, "abfss://in@shop.dfs.core.windows.net", "a"),
        ("filesystem", {"path": "hdfs://name:8020/a/"}, "hdfs://name:8020", "/a"),
        ("filesystem", {"path": "file:///data/a%20b"}, "file", "/data/a b"),
        ("iceberg", {"catalog.uri": "https://me:pw@rest/v1", "table-name": "sales.t"}, "https://rest", "sales.t"),
        (
            "iceberg",
            {"catalog.uri": "sqlite:////lake/c.db", "table-name": "sales.t"},
            "sqlite:////lake/c.db",
            "sales.t",
        ),
        ("duckdb", {"path": "/data/shop.duckdb", "table-name": "t"}, "duckdb:///data/shop.duckdb", "t"),
        ("http", {"url": "https://me:pw@api.example/v1/x"}, "https://api.example", "/v1/x"),
        ("datagen", {}, "shop", "planes"),
        ("filesystem", {"path": "${DATA}"}, "file", None),
    ],
)
def test_datasets_are_named_as_the_specification_says(connector, options, namespace, name):
    table = Table("planes", (Column("n", BIGINT),), connector, tuple(options.items()))
    named = dataset_name(table, "shop")
    assert named.namespace == namespace
    assert "secret" not in str(named) and ":pw@" not in str(named)
    assert name is None or named == DatasetName(namespace, name)


def test_a_file_has_an_event_a_line(tmp_path):
    transport = FileTransport(str(tmp_path / "new" / "events.jsonl"))
    for number in range(2):
        transport.send({"n": number})
    lines = (tmp_path / "new" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"n": 0}, {"n": 1}]


def test_a_file_that_cannot_be_written_fails_the_start(tmp_path):
    with pytest.raises(ExecutionError) as error:
        FileTransport(str(tmp_path))
    assert str(error.value).startswith(f'SS477: events of lineage cannot be written to "{tmp_path}": Is a directory')


def test_a_server_is_posted_to_again_until_it_takes_an_event(caplog):
    sent = []

    def post(url, body, headers):
        sent.append((url, json.loads(body), headers))
        if len(sent) < 3:
            raise urllib.error.HTTPError(url, 503, "busy", None, io.BytesIO())  # type: ignore[arg-type]

    transport = HttpTransport("http://marquez:5000/", "k3y", post, pause_s=0)
    transport.send({"n": 1})
    transport.close()
    assert [url for url, _, _ in sent] == ["http://marquez:5000/api/v1/lineage"] * 3
    assert sent[0][2] == {"Content-Type": "application/json", "Authorization": "Bearer k3y"}
    assert not caplog.records


def test_an_event_that_no_server_takes_is_dropped_with_a_line(caplog):
    def post(url, body, headers):
        raise OSError("no route")

    transport = HttpTransport("http://marquez:5000/own/path", None, post, pause_s=0)
    transport.send({"n": 1})
    transport.close()
    assert [record.getMessage() for record in caplog.records] == [
        "an event of lineage is not taken by the server, and dropped: no route"
    ]


def test_a_server_that_answers_nonsense_costs_its_events_alone(caplog):
    """What is no HTTP is no OSError; it ended the thread, and all later events were lost without a word."""
    sent = []

    def post(url, body, headers):
        sent.append(json.loads(body))
        if sent[-1] == {"n": 1}:
            raise http.client.BadStatusLine("SSH-2.0")

    transport = HttpTransport("http://marquez:5000", None, post, pause_s=0)
    for number in (1, 2):
        transport.send({"n": number})
    transport.close()
    assert sent == [{"n": 1}] * 3 + [{"n": 2}]
    (record,) = caplog.records
    assert record.getMessage().startswith("an event of lineage is not taken by the server, and dropped: ")


def test_the_end_does_not_wait_for_a_server_that_is_away(monkeypatch):
    monkeypatch.setattr(transports, "_MOST_WAITING", 1)
    monkeypatch.setattr(transports, "_TIMEOUT_S", 0.05)
    asked, back = Event(), Event()

    def post(url, body, headers):
        asked.set()
        back.wait(10)

    transport = HttpTransport("http://marquez:5000", None, post, pause_s=0)
    transport.send({"n": 1})
    assert asked.wait(10)
    for number in (2, 3):
        transport.send({"n": number})
    begin = time.monotonic()
    transport.close()
    assert time.monotonic() - begin < 5
    back.set()


class _Producer:
    """A client of Kafka that keeps what it is given."""

    def __init__(self, properties, full=False):
        self.properties, self.full, self.written = dict(properties), full, []

    def produce(self, topic, value, key, on_delivery):
        if self.full:
            raise BufferError
        self.written.append((topic, json.loads(value), key))
        on_delivery(None if topic == "events" else "Broker: Unknown topic", None)

    def poll(self, seconds):
        assert seconds == 0

    def flush(self, seconds):
        self.flushed = seconds


def test_events_are_written_to_a_topic_with_the_job_as_key():
    properties = {"security.protocol": "SSL", "ssl.truststore.location": "ca.pem"}
    transport = KafkaTransport("k:9092", "events", properties, _Producer)
    (event,) = events_of(("on_start", job()))
    transport.send(event)
    transport.close()
    producer = transport._producer
    assert producer.written == [("events", event, b"run:shop/totals")] and producer.flushed
    assert producer.properties == {
        "bootstrap.servers": "k:9092", "delivery.timeout.ms": "60000", "log_level": "0", "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
    }  # fmt: skip


def test_events_that_kafka_does_not_take_are_dropped_and_logged(caplog):
    (event,) = events_of(("on_start", job()))
    KafkaTransport("k:9092", "lost", {}, _Producer).send(event)
    KafkaTransport("k:9092", "events", {}, lambda properties: _Producer(properties, full=True)).send(event)
    assert [record.getMessage() for record in caplog.records] == [
        "an event of lineage is not taken by Kafka, and dropped: Broker: Unknown topic",
        "an event of lineage is dropped: the queue of the Kafka client is full",
    ]


def test_properties_that_the_client_refuses_fail_the_start():
    with pytest.raises(ExecutionError) as raised:
        KafkaTransport("k:9092", "events", {"no.such.property": "1"})
    assert str(raised.value).startswith('SS477: events of lineage cannot be written to the topic "events": ')
