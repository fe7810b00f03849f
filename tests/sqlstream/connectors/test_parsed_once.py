"""A record is parsed once, however many conditions, checks and columns read a field of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.session import Session

pytestmark = pytest.mark.spark

MESSAGES = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


def parses(plan: Any) -> int:
    """How often the plan parses records; errors parse one again, into texts, for which they need no mode."""
    text = plan.toString()
    return sum(text.count(f"(mode,{mode})") for mode in ("PERMISSIVE", "FAILFAST"))


@pytest.mark.parametrize("options", ["", ", 'on-error' = 'skip'"])
@pytest.mark.parametrize("required", ["", " NOT NULL"])
def test_lines_of_json_are_parsed_once(options: str, required: str, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"a": 3, "b": "x"}\n\n{"a": 1, "b": "y"}\n')
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (a INT{required}, b STRING{required})
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in'{options})""")
        session.sql("SET 'sqlstream.file-reader' = 'spark'")  # else no parser of Spark's is in the plan
        rows = session.dataframe("SELECT a + 1 AS a, UPPER(b) AS b, a + 2 AS c FROM t WHERE a > 1 AND b <> 'z'")
        collected: list[tuple[Any, ...]] = []
        query = (
            rows.writeStream.foreachBatch(lambda batch, _: collected.extend(map(tuple, batch.collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert collected == [(4, "X", 5)]
    assert parses(query._jsq.streamingQuery().lastExecution().optimizedPlan()) == 1


@pytest.mark.parametrize("options", [{}, {"on_error": "skip"}])
@pytest.mark.parametrize(("format", "value"), [("json", '{"a": 3, "b": "x"}'), ("csv", "3,x")])
def test_messages_are_parsed_once(
    format: str,  # noqa: A002
    value: str,
    options: dict[str, str],
    spark: Any,
    make_table: Any,
) -> None:
    given = {"topic": "t", "properties__bootstrap__servers": "localhost:9092", "format": format} | options
    table = make_table("kafka", "a INT; b STRING", **given)
    messages = spark.createDataFrame([(None, value.encode(), "t", 0, 0, None)], MESSAGES).persist()  # else it is folded
    rows = (
        Kafka()
        .rows_of_messages(messages, table, ("b", "a"), by_java=True)
        .where("a > 1 AND b <> 'z'")
        .selectExpr("a", "a + 1", "b")
    )
    assert [tuple(row) for row in rows.collect()] == [(3, 4, "x")]
    assert parses(rows._jdf.queryExecution().optimizedPlan()) == 1
    messages.unpersist()
