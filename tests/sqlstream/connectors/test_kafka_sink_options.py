"""Options with which tables of Kafka are written, and METADATA columns that INSERT writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.client import client_properties
from sqlstream.connectors.kafka.sink import NewTopic, new_topic, require_topic
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.session import Session
from sqlstream.udfs.kafka.produce import TIME, keeping_order
from sqlstream.udfs.kafka.produce import _times as times_of

ONCE = {"sink__delivery_guarantee": "exactly-once", "sink__transactional_id_prefix": "p"}


def errors(table: Table) -> list[str]:
    return [f"{item.code}: {item.message}" for item in validate(table, {})]


@pytest.fixture
def topic(make_table: Any) -> Any:
    def make(**options: object) -> Table:
        given = {"topic": "t", "properties__bootstrap__servers": "h:1", "format": "json"} | options
        table: Table = make_table("kafka", "a INT", **given)
        return table

    return make


def first(result: Any) -> str:
    return str(next(iter(result))[0])


def test_options_of_writing_need_each_other(topic: Any) -> None:
    assert errors(topic(**ONCE)) == errors(topic(sink__delivery_guarantee="none")) == []
    assert errors(topic(sink__delivery_guarantee="exactly-once")) == [
        'SS503: "sink.delivery-guarantee" = \'exactly-once\' needs the option "sink.transactional-id-prefix"'
    ]
    assert errors(topic(sink__transactional_id_prefix="p")) == [
        "SS503: option \"sink.transactional-id-prefix\" needs 'sink.delivery-guarantee' = 'exactly-once'"
    ]
    assert errors(topic(topic__partitions=3)) == ["SS503: option \"topic.partitions\" needs 'topic.create' = 'true'"]
    assert errors(topic(topic="a;b", topic__create="true")) == [
        'SS504: option "topic.create" needs the name of one topic, the option "topic"'
    ]
    assert errors(topic(kafka__client="spark", **ONCE)) == [
        'SS504: option "sink.delivery-guarantee" has no effect on Spark\'s connector',
        'SS504: option "sink.transactional-id-prefix" has no effect on Spark\'s connector',
    ]
    assert errors(topic(properties__transactional__id="x")) == [
        'SS504: option "properties.transactional.id" has no meaning for librdkafka'
    ]
    assert errors(topic(sink__metadata__a="timestamp")) == ['SS502: connector "kafka" has no option "sink.metadata.a"']


def test_topics_are_made_as_the_options_say(topic: Any) -> None:
    from sqlstream.connectors import connector

    table = topic(topic__create="true", topic__partitions=3, topic__config__cleanup__policy="delete")
    creation = new_topic(connector("kafka").values(table), {"cleanup.policy": "compact", "segment.ms": "1"})
    assert creation == NewTopic(3, None, (("cleanup.policy", "delete"), ("segment.ms", "1")))
    assert new_topic(connector("kafka").values(topic())) is None


def test_properties_of_java_s_producers_are_translated() -> None:
    given = {"acks": "all", "buffer.memory": "2050", "compression.zstd.level": "3", "max.request.size": "9"}
    assert client_properties({f"properties.{key}": value for key, value in given.items()}) == {
        "acks": "all", "compression.level": "3", "message.max.bytes": "9", "queue.buffering.max.kbytes": "3",
    }  # fmt: skip


def test_messages_of_a_partition_keep_their_order_also_without_idempotence() -> None:
    one = {"max.in.flight.requests.per.connection": "1"}
    assert keeping_order({}) == keeping_order({"acks": "-1"}) == {"enable.idempotence": "true"}
    assert keeping_order({"acks": "1"}) == keeping_order({"request.required.acks": "0"}) == one
    assert keeping_order({"acks": "all", "enable.idempotence": "False"}) == one
    assert keeping_order({"retries": "0"}) == keeping_order({"max.in.flight.requests.per.connection": "6"}) == one


def test_a_time_that_librdkafka_takes_for_the_present_is_refused() -> None:
    def written(*times: int | None) -> list[int]:
        return [*times_of(pa.record_batch({TIME: pa.array(times, pa.int64())}))]

    assert written(5, None) == [5, 0]
    with pytest.raises(ConnectorError, match="SS595: the time of a message is 1970-01-01 00:00:00 UTC"):
        written(5, 0)


def test_insert_writes_metadata_columns_that_are_not_virtual() -> None:
    session = Session()
    session.sql(
        "CREATE TABLE t (a INT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BINARY> METADATA FROM "
        "'headers' VIRTUAL, o BIGINT METADATA FROM 'offset') WITH ('connector' = 'kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'h:1', 'format' = 'json')"
    )
    session.sql("CREATE TABLE g (a INT) WITH ('connector' = 'datagen')")

    def explain(insert: str) -> str:
        return first(session.sql(f"EXPLAIN {insert}"))

    assert "Insert(t: a, at)" in explain("INSERT INTO t SELECT a, NULL FROM g")
    assert "Insert(t: a, at)" in explain("INSERT INTO t (a) SELECT a FROM g")
    with pytest.raises(SqlStreamError, match='SS216: "t" takes 2 columns, but the query has 1'):
        explain("INSERT INTO t SELECT a FROM g")
    with pytest.raises(SqlStreamError, match='SS216: column "h" is metadata of the connector and takes no values'):
        explain("INSERT INTO t (a, h) SELECT a, NULL FROM g")
    shown = first(session.sql("SHOW CREATE TABLE t"))
    assert "METADATA FROM 'timestamp'" in shown and "sink.metadata" not in shown


def test_a_target_is_what_was_declared_with_columns_in_place_of_metadata(make_table: Any) -> None:
    given = {"topic": "t", "properties__bootstrap__servers": "h:1", "format": "json"}
    table = make_table("kafka", "a INT", {"at": "timestamp"}, **given)
    assert [c.name for c in table.target.physical_columns] == ["a", "at"]
    assert table.target.written_metadata == {"at": "timestamp"} and table.written_metadata == {}
    by_spark = make_table("kafka", "a INT", {"at": "timestamp"}, kafka__client="spark", **given)
    assert by_spark.target is by_spark


def test_a_topic_whose_partitions_have_no_leader_exists(monkeypatch: pytest.MonkeyPatch):
    """A broker is down: what is sent waits for it, and nobody is told to create a topic that is there."""
    partitions = {0: SimpleNamespace(leader=-1), 1: SimpleNamespace(leader=2)}
    listed = SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})
    asked = SimpleNamespace(list_topics=lambda timeout: listed)
    monkeypatch.setattr("sqlstream.udfs.kafka.produce.producer_of", lambda properties: asked)
    require_topic({}, "t", None)
    with pytest.raises(ConnectorError, match='topic "u" does not exist'):
        require_topic({}, "u", None)
