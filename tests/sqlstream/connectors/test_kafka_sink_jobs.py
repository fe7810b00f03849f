"""Jobs that write topics of a real broker: keys, guarantees, topics that they create, and upserts."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.sqlstream.connectors.test_kafka_sink import messages, values
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = pytest.mark.spark

ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


@pytest.fixture
def session(spark: Any) -> Any:
    with sqlstream.connect(spark) as session:
        yield session


def declare(session: Session, topics: Topics, name: str, columns: str, topic: str, **options: str) -> None:
    upserts = "PRIMARY KEY" in columns
    usual = {
        "connector": "upsert-kafka" if upserts else "kafka", "topic": topic,
        "properties.bootstrap.servers": topics.address, "scan.bounded.mode": "latest-offset", "value.format": "json",
        **({"key.format": "json"} if upserts else {"scan.startup.mode": "earliest-offset"}),
    }  # fmt: skip
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in {**usual, **options}.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")


def insert(session: Session, text: str) -> None:
    job = session.sql(text)
    assert isinstance(job, Job)
    job.wait()


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(map(tuple, result))


def test_rows_keep_keys_headers_and_times(session: Session, topics: Topics):
    columns = (
        "id INT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BINARY> METADATA FROM "
        "'headers', o BIGINT METADATA FROM 'offset' VIRTUAL"
    )
    topic = topics.create()
    keyed = {"key.format": "csv", "key.fields": "id", "value.fields-include": "EXCEPT_KEY"}
    declare(session, topics, "t", columns, topic, **keyed)
    insert(
        session,
        "INSERT INTO t SELECT * FROM (VALUES (1, 'a', TIMESTAMP '2024-01-31 12:00:00.5', MAP('x', CAST('y' AS BINARY)))"
        ", (2, NULL, NULL, NULL)) AS v (id, name, at, h)",
    )
    first, second = sorted(messages(topics, topic), key=lambda m: m.key() or b"")
    assert (first.key(), first.value(), first.headers()) == (b"1", b'{"name":"a"}', [("x", b"y")])
    assert (second.key(), second.value(), second.headers()) == (b"2", b'{"name":null}', None)
    assert rows(session, "SELECT id, name, CAST(at AS STRING), CAST(h['x'] AS STRING) FROM t WHERE id = 1") == [
        (1, "a", "2024-01-31 12:00:00.5", "y")
    ]
    with pytest.raises(SqlStreamError, match='SS216: column "o" is metadata of the connector and takes no values'):
        session.sql("INSERT INTO t (id, o) SELECT 1, 2")


def test_a_topic_that_does_not_exist_is_refused_or_created(session: Session, topics: Topics):
    declare(session, topics, "t", "a INT", "on-request")
    with pytest.raises(SqlStreamError, match='SS590: topic "on-request" does not exist'):
        insert(session, "INSERT INTO t VALUES (1)")
    made = {"topic.create": "true", "topic.partitions": "3", "topic.config.retention.ms": "12345"}
    declare(session, topics, "made", "a INT", "on-request", **made)
    insert(session, "INSERT INTO made VALUES (1), (2)")
    assert sorted(values(topics, "on-request")) == ['{"a":1}', '{"a":2}']
    assert len(topics.admin.list_topics("on-request").topics["on-request"].partitions) == 3
    assert topics.config("on-request")["retention.ms"] == "12345"
    declare(session, topics, "many", "a INT", "a;b")
    with pytest.raises(SqlStreamError, match='SS507: table "many" cannot be written: it is not of one topic'):
        insert(session, "INSERT INTO many VALUES (1)")


def test_two_sinks_of_one_prefix_are_refused(session: Session, topics: Topics):
    declare(session, topics, "a", "id INT", "any", **ONCE)
    declare(session, topics, "b", "id INT, PRIMARY KEY (id) NOT ENFORCED", "other", **ONCE)
    both = "EXECUTE STATEMENT SET BEGIN INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); END"
    with pytest.raises(SqlStreamError) as error:
        session.sql(both)
    assert (
        'SS277: tables "a" and "b" of one statement set have the same option \'sink.transactional-id-prefix\''
        in str(error.value)
    )


@pytest.mark.parametrize("once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_epoch_that_spark_repeats(session: Session, topics: Topics, tmp_path: Path, once: bool):
    """The last run was killed before Spark knew that its epoch was written."""
    source, topic = topics.create(), topics.create(2)
    declare(session, topics, "s", "a INT", source, **{"scan.bounded.mode": "unbounded"})
    declare(session, topics, "t", "a INT", topic, **(ONCE | {"sink.transactional-id-prefix": topic} if once else {}))
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job'")

    def run() -> None:
        job = session.sql("INSERT INTO t SELECT a FROM s WHERE a >= 0")
        assert isinstance(job, Job)
        job.stop(drain=True)

    def send(*numbers: int) -> None:
        topics.send(source, *(json.dumps({"a": number}).encode() for number in numbers))

    session.sql("SET 'metrics.prometheus.port' = '0'")
    send(1, 2)
    run()
    send(3, -1)
    run()
    url = session.open_metrics()
    assert url is not None
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        shown = [line for line in answer.read().decode().splitlines() if "_partition_" in line or "_sink_io" in line]
    of_partition = f'{{messaging_destination_name="{source}",messaging_destination_partition_id="0"'
    for name, value in (("rows_total", 2), ("offset", 4), ("pending_rows", 0)):
        (line,) = (line for line in shown if line.startswith(f"sqlstream_source_partition_{name}{of_partition}"))
        assert float(line.split()[-1]) == value, line
    (written,) = (line for line in shown if line.startswith("sqlstream_sink_io_bytes_total"))
    assert 'sqlstream_table="t"' in written and float(written.split()[-1]) == len('{"a":3}')
    forget_last_epoch(tmp_path / "job")
    send(4)
    run()
    again = [] if once else [3]
    assert sorted(json.loads(value)["a"] for value in values(topics, topic)) == sorted([1, 2, 3, 4, *again])


@pytest.mark.long
def test_a_job_over_a_silent_topic_goes_on_from_where_it_began(session: Session, topics: Topics, tmp_path: Path):
    source, topic = topics.create(), topics.create(2)
    topics.send(source, b'{"a": 0}')
    begins = {"scan.bounded.mode": "unbounded", "scan.startup.mode": "latest-offset"}
    declare(session, topics, "s", "a INT", source, **begins)
    declare(session, topics, "t", "a INT", topic, **(ONCE | {"sink.transactional-id-prefix": topic}))
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job'")
    for number in (1, 2):  # the first run reads nothing
        job = session.sql("INSERT INTO t SELECT a FROM s")
        assert isinstance(job, Job)
        job.stop(drain=True)
        topics.send(source, json.dumps({"a": number}).encode())
    assert values(topics, topic) == ['{"a":1}']


def forget_last_epoch(job: Path) -> None:
    commits = sorted((job / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for name in (commits[-1].name, f".{commits[-1].name}.crc"):
        (commits[-1].parent / name).unlink(missing_ok=True)


# --- upserts ------------------------------------------------------------------------------------------------------


def test_changes_are_messages_of_their_key_and_rows_that_no_longer_match_are_deleted(session: Session, topics: Topics):
    source, target = topics.create(), "upserted"
    key = "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED"
    declare(session, topics, "s", key, source)
    declare(session, topics, "t", key, target, **{"topic.create": "true", "topic.partitions": "2"})
    for number, value in ((1, 20), (2, 30), (3, 5), (1, 3), (2, 40), (3, 50), (4, 60)):
        topics.send(source, json.dumps({"id": number, "v": value}).encode(), key=f'{{"id":{number}}}'.encode())
    topics.send(source, None, key=b'{"id":4}')
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    insert(session, "INSERT INTO t SELECT id, v FROM s WHERE v > 10")
    last = {(m.key() or b"").decode(): m.value() for m in messages(topics, target)}
    assert {k: v for k, v in last.items() if v} == {'{"id":2}': b'{"id":2,"v":40}', '{"id":3}': b'{"id":3,"v":50}'}
    assert topics.config(target)["cleanup.policy"] == "compact"
    assert rows(session, "SELECT COUNT(*), SUM(v) FROM t")[-1][-2:] == (2, 90)


@pytest.mark.long
def test_a_deletion_is_a_message_without_a_value_and_the_text_null_is_none(session: Session, topics: Topics):
    """Some write the text in its place: compaction would keep it, and a reader take it for a value."""
    source, target, key = topics.create(), topics.create(), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED"
    declare(session, topics, "s", key, source)
    declare(session, topics, "t", key, target)
    topics.send(source, b'{"id":1,"v":1}', None, b'{"id":1,"v":null}', None, key=b'{"id":1}')
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    insert(session, "INSERT INTO t SELECT id, v FROM s")
    written = [message.value() for message in messages(topics, target)]
    assert written[-1] is None and {*written} <= {b'{"id":1,"v":1}', b'{"id":1,"v":null}', None}
    topics.send(source, b'{"id":1,"v":2}', b"null", key=b'{"id":1}')
    for mode in ("streaming", "batch"):
        session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
        with pytest.raises(SqlStreamError) as caught:
            rows(session, "SELECT * FROM s")
        assert f"{source}[0]@5" in str(caught.value) and "the record is no JSON object" in str(caught.value)
    declare(session, topics, "u", key, source, **{"on-error": "skip"})
    assert rows(session, "SELECT id, v FROM u")[-1][-2:] == (1, 2), "it deletes nothing"


@pytest.mark.long
def test_updates_and_deletions_of_rows_whose_insert_is_compacted_away(session: Session, topics: Topics):
    topic = topics.create()
    declare(session, topics, "s", "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", topic)
    for number, value in ((1, 20), (2, 20), (3, 30), (1, 30), (9, None), (2, 20), (3, None), (1, 40)):
        text = None if value is None else json.dumps({"id": number, "v": value}).encode()
        topics.send(topic, text, key=f'{{"id":{number}}}'.encode())
    topics.eat(topic, 3)
    query = "SELECT v, COUNT(*) AS n FROM s GROUP BY v"
    assert rows(session, query) == [("+I", 20, 1), ("+I", 40, 1)]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    counts: Counter[tuple[int, int]] = Counter()
    for kind, *row in rows(session, query):
        counts[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    assert +counts == {(20, 1): 1, (40, 1): 1} and not -counts


@pytest.mark.long
def test_offsets_of_the_group_are_those_of_written_epochs(session: Session, topics: Topics, tmp_path: Path):
    source, target = topics.create(), topics.create(max_message_bytes="1000")
    topics.commit(f"group-{source}", target, 0)
    topics.send(source, json.dumps({"a": "x" * 5000}).encode(), b'{"a": "y"}')
    declare(
        session, topics, "s", "a STRING", source,
        **{"scan.bounded.mode": "unbounded", "properties.group.id": f"group-{source}"},
    )  # fmt: skip
    declare(session, topics, "t", "a STRING", target)
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job'")

    def run() -> None:
        job = session.sql("INSERT INTO t SELECT a FROM s")
        assert isinstance(job, Job)
        job.stop(drain=True)

    with pytest.raises(SqlStreamError, match="SS595"):
        run()
    assert topics.committed(f"group-{source}", source) is None
    topics.configure(target, max_message_bytes="100000")
    run()
    assert len(values(topics, target)) == 2
    assert topics.committed(f"group-{source}", source) == 2
