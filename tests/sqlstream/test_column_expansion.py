"""What * stands for: 'table.column-expansion-strategy'."""

from __future__ import annotations

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session

DEFAULT, ALIASED = (f"EXCLUDE_{kind}_VIRTUAL_METADATA_COLUMNS" for kind in ("DEFAULT", "ALIASED"))
COLUMNS = "id INT, `partition` INT METADATA VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, `topic` STRING METADATA"
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', 'format' = 'json'"


def columns(query: str, strategy: str = "") -> str:
    session = Session()
    session.sql(f"CREATE TABLE t ({COLUMNS}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA})")
    session.sql("CREATE VIEW v AS SELECT * FROM t")
    session.sql(f"SET 'table.column-expansion-strategy' = '{strategy}'")
    result = session.sql(f"EXPLAIN {query}")
    assert isinstance(result, Rows)
    output = str(next(iter(result))[0]).splitlines()[0]
    return output.removeprefix("Output(").removesuffix(")")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("", "id, partition, o, topic, ts"),
        (DEFAULT, "id, o, topic, ts"),
        (ALIASED.lower(), "id, partition, topic, ts"),
        (f"{DEFAULT};{ALIASED}", "id, topic, ts"),
    ],
)
def test_virtual_metadata_columns_are_left_out_of_a_star(strategy: str, expected: str) -> None:
    assert columns("SELECT * FROM t", strategy) == expected
    assert columns("SELECT x.* FROM t AS x", strategy) == expected
    assert columns("SELECT * FROM v", strategy) == expected


def test_columns_that_a_star_leaves_out_may_be_named() -> None:
    assert columns("SELECT *, `partition` FROM t", DEFAULT) == "id, o, topic, ts, partition"


def test_the_table_of_a_function_has_all_its_columns() -> None:
    tumbled = columns("SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)", DEFAULT)
    assert tumbled == "id, partition, o, topic, ts, window_start, window_end, window_time"


def test_other_words_are_refused() -> None:
    with pytest.raises(SqlStreamError, match="SS504"):
        Session().sql("SET 'table.column-expansion-strategy' = 'NONE'")


def test_queries_that_spark_would_expand_otherwise_are_no_batches(tmp_path) -> None:
    session = Session()
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    session.sql(
        f"CREATE TABLE f (id INT, `file.path` STRING METADATA VIRTUAL) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'json')"
    )
    query = "SELECT * FROM f TABLESAMPLE (1 ROWS);"
    assert [d.code for d in session.check(query)] == []
    session.sql(f"SET 'table.column-expansion-strategy' = '{DEFAULT}'")
    assert [d.code for d in session.check(query)] == ["SS332"]
