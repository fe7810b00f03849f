"""Where results differ from Flink's: the tables of docs/dialect.md say it, and every line of them is true here."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import sqlstream
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.nodes import Output, Project
from sqlstream.plans import plan_of
from sqlstream.testing import StreamTest
from tests.differences import AGGREGATES, ERROR, EXPRESSIONS, Difference, tables

PAGE = Path(__file__).parents[1] / "docs" / "dialect.md"
ALL = [line for lines in EXPRESSIONS.values() for line in lines]
VALUES = [line for line in ALL if line.here != ERROR]


def test_the_page_has_the_tables():
    text = PAGE.read_text(encoding="utf-8")
    assert tables() in text, f"put this into {PAGE}:\n\n{tables()}"


def test_every_line_is_a_difference():
    wrong = [line.expression for line in (*ALL, *AGGREGATES) if line.flink == line.here]
    assert not wrong
    assert len({line.expression for line in ALL}) == len(ALL)


@pytest.mark.spark
def test_expressions_give_what_the_page_says(spark):
    columns = ", ".join(line.expression for line in VALUES)
    with sqlstream.connect(spark) as session, StreamTest(f"{_TABLE}; SELECT {columns} FROM one", session) as test:
        test.rows("one", [(1,)])
        ((_, *output),) = test.output()
    assert _by_expression(VALUES, output) == {line.expression: line.here for line in VALUES}


@pytest.mark.spark
@pytest.mark.parametrize("line", [line for line in ALL if line.here == ERROR], ids=lambda line: line.expression)
def test_errors_are_errors(spark, line):
    from pyspark.errors import PySparkException

    with sqlstream.connect(spark) as session, pytest.raises(PySparkException):
        session.sql(_TABLE)
        (statement,) = parse_script(f"SELECT {line.expression} FROM one")
        assert isinstance(statement, nodes.Query)
        plan = plan_of(statement, session.workspace)
        assert isinstance(plan, Output) and isinstance(plan.input, Project)
        project = plan.input
        spark.sql(f"SELECT {project.items[0].expression.sql('spark')}").collect()


@pytest.mark.spark
def test_aggregates_give_what_the_page_says(spark):
    names = [f"x{i}" for i in range(len(AGGREGATES))]
    declared = ", ".join(f"{name} {line.type}" for name, line in zip(names, AGGREGATES, strict=True))
    calls = ", ".join(re.sub(r"\bx\b", name, line.expression) for name, line in zip(names, AGGREGATES, strict=True))
    script = (
        f"CREATE TABLE t (n INT, {declared}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test'); "
        f"SELECT {calls} FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY)"
    )
    count = max(len(line.rows) for line in AGGREGATES)
    rows = [(n, *(line.rows[n] if n < len(line.rows) else None for line in AGGREGATES), 0) for n in range(count)]
    with sqlstream.connect(spark) as session, StreamTest(script, session) as test:
        test.rows("t", rows)
        test.finish()
        ((_, *output),) = test.output()
    assert list(map(_shown, output)) == [line.here for line in AGGREGATES]


_TABLE = "CREATE TABLE one (i INT) WITH ('connector' = 'test')"


def _by_expression(lines: list[Difference], items: list[object]) -> dict[str, str]:
    return {line.expression: _shown(value) for line, value in zip(lines, items, strict=True)}


def _shown(value: object) -> str:
    """A value as the page writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"
        case datetime():
            return str(value.replace(tzinfo=None))
        case date() | Decimal() | int() | float():
            return str(value)
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case dict():
            return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"a page cannot show {value!r}")
