"""``'sqlstream.functions.on-error'``: rows for which a scalar function raises an exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.udfs.process import ProcessContext, ProcessFunction, Row, ValueState

SETTING = "SET 'sqlstream.functions.on-error' = 'dead-letter:dead'"
DEAD = "CREATE TABLE dead (error STRING, record STRING, source STRING, place STRING) WITH ('connector' = 'memory')"


def half(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value // 2


class HalfSum:
    def create(self) -> int:
        return 0

    def accumulate(self, state: int, value: int) -> int:
        return state + half(value)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> int:
        return state


class Counted(NamedTuple):
    n: int
    text: str | None


class Count(ProcessFunction):
    """The rows of a key, but for those without a text."""

    n = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Counted]:  # noqa: A002
        self.n.value += 1
        yield Counted(self.n.value, input.text.lower())


class Checked(ProcessFunction):
    """Each row by itself."""

    pass_through = True

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[bool]:  # noqa: A002
        yield input.a > 0 or bool(1 / 0)


def words(text: str) -> Iterator[str]:
    if "!" in text:
        raise ValueError("too loud")
    yield from text.split()


def rows(session: Session, text: str) -> list[Any]:
    query = session.sql(text)
    assert isinstance(query, Query)
    return query.fetchall()


@pytest.mark.spark
def test_rows_for_which_a_function_fails_are_dead_letters_and_the_others_go_on(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps({"a": a}) + "\n" for a in (4, 3, 8, 6)))
    with Session(spark) as session:
        session.register_function("half", half)
        session.sql(f"{DEAD}; {SETTING}")
        session.sql(f"""
            CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in');
            CREATE TABLE o (a INT, h INT) WITH ('connector' = 'memory')""")
        job = session.sql("INSERT INTO o SELECT a, half(half(a)) FROM t WHERE half(a) > 1")
        assert isinstance(job, Job)
        assert job.wait(300)
        assert sorted(rows(session, "SELECT a, h FROM o")) == [(4, 1), (8, 2)]
        dead = sorted(rows(session, "SELECT record, error, source, place FROM dead"))
    assert [row[:3] for row in dead] == [
        ('{"value":3}', 'SS411: function "half" failed: ValueError: 3 is odd', "half"),
        ('{"value":3}', 'SS411: function "half" failed: ValueError: 3 is odd', "half"),
    ]
    assert all(f"{Path(__file__).name}:" in row[3] and row[3].endswith(" in half") for row in dead)
    assert job.progress().bad_rows == {"half": 2}


@pytest.mark.spark
def test_process_functions_and_table_functions_go_on_without_the_rows_they_fail_for(spark, tmp_path: Path) -> None:
    given = [
        (1, "a", "X Y"),
        (1, "b", None),
        (1, "a", None),
        (1, "a", "Z!"),
        (0, "b", "V"),
        (1, "a", ""),
        (1, "a", "W"),
    ]
    (tmp_path / "in").mkdir()
    lines = (json.dumps({"a": a, "k": k, "text": text}) + "\n" for a, k, text in given)
    (tmp_path / "in" / "a.json").write_text("".join(lines))
    with Session(spark) as session:
        for name, function in (("count_rows", Count), ("checked", Checked), ("words", words)):
            session.register_function(name, function)
        session.sql(f"{DEAD}; {SETTING}")
        session.sql(f"""
            CREATE TABLE t (a INT, k STRING, text STRING)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in');
            CREATE TABLE o (k STRING, n BIGINT, word STRING, letter STRING) WITH ('connector' = 'memory');
            CREATE VIEW good AS SELECT * FROM checked(input => TABLE t)""")
        job = session.sql("""
            INSERT INTO o SELECT c.k, c.n, w.word, l.letter
            FROM count_rows(input => TABLE good PARTITION BY k) AS c
            LEFT JOIN LATERAL TABLE(words(c.text)) AS w(word) ON TRUE
            CROSS JOIN UNNEST(split(coalesce(w.word, 'none'), '')) AS l(letter)""")
        assert isinstance(job, Job)
        assert job.wait(300)
        actual = rows(session, "SELECT k, n, word, letter FROM o")
        dead = sorted(rows(session, "SELECT source, record, error FROM dead"), key=str)
    assert sorted(actual, key=str) == sorted(
        [("a", 1, "x", "x"), ("a", 1, "y", "y"), ("a", 4, "w", "w"), *(("a", 3, None, c) for c in "none")], key=str
    )
    assert dead == [
        (
            "checked",
            '{"input":"input","row":{"a":0,"k":"b","text":"V"}}',
            'SS440: process function "checked" failed in eval: ZeroDivisionError: division by zero',
        ),
        *(
            (
                "count_rows",
                f'{{"key":{{"k":"{k}"}},"input":"input","row":{{"a":1,"k":"{k}","text":null,"checked":true}}}}',
                'SS440: process function "count_rows" failed in eval: AttributeError: '
                "'NoneType' object has no attribute 'lower'",
            )
            for k in "ab"
        ),
        ("words", '{"text":"z!"}', 'SS411: function "words" failed: ValueError: too loud'),
    ]
    assert job.progress().bad_rows == {"checked": 1, "count_rows": 2, "words": 1}


def session_with(*statements: str) -> Session:
    session = Session()
    session.register_function("half", half)
    session.register_function("half_sum", HalfSum)
    for statement in ("CREATE TABLE t (a INT, pt AS PROCTIME()) WITH ('connector' = 'test')", DEAD, *statements):
        session.sql(statement)
    return session


def test_only_queries_that_call_functions_write_dead_letters() -> None:
    session = session_with(SETTING)
    assert "dead" not in session.explain("SELECT a FROM t")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT half_sum(a) AS s FROM t GROUP BY TUMBLE(pt, INTERVAL '1' MINUTE)",
        "SELECT SUM(half(a)) AS s FROM t GROUP BY TUMBLE(pt, INTERVAL '1' MINUTE)",
        "SELECT window_start, SUM(half(a)) AS s FROM TUMBLE(TABLE t, DESCRIPTOR(pt), INTERVAL '1' MINUTE) "
        "GROUP BY window_start, window_end",
    ],
)
def test_calls_that_the_setting_does_not_reach_are_refused(query: str) -> None:
    assert session_with().explain(query)
    with pytest.raises(SqlStreamError) as error:
        session_with(SETTING).explain(query)
    name = "half_sum" if "half_sum" in query else "half"
    assert error.value.diagnostic.message == (
        f'setting "sqlstream.functions.on-error" does not reach function "{name}" here'
    )


def test_the_table_of_dead_letters_must_be_there() -> None:
    with pytest.raises(SqlStreamError, match='SS240: table "gone" for the bad rows of Python functions does not exist'):
        session_with("SET 'sqlstream.functions.on-error' = 'dead-letter:gone'").explain("SELECT half(a) FROM t")
