"""Functions of Flink: every line of the page, and values of those that only Flink has, with NULLs and odd operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sqlstream
from docs.flink_functions import Entry, Fate, entries, fate_of
from sqlstream.errors import SqlStreamError
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing import StreamTest

LINES = [(f"{section}: {line['call']}", line) for section, lines in entries().items() for line in lines]
TABLES = """
CREATE TABLE events (x STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    WITH ('connector' = 'test');
CREATE TABLE changes (id INT, op STRING) WITH ('connector' = 'test');
"""


def query_of(line: Entry, instead: bool = False) -> str:
    if "query" in line or "streamed" in line:
        return str(line.get("query") or line["streamed"])
    tables = f" FROM {line['from']}" if "from" in line else ""
    return f"SELECT {line['instead' if instead else 'try']} AS r{tables}"


@pytest.fixture(scope="module")
def planned() -> Session:
    session = sqlstream.connect()
    session.sql(TABLES)
    return session


@pytest.mark.parametrize("line", [line for _, line in LINES], ids=[name for name, _ in LINES])
def test_each_line_is_planned_or_refused_as_the_page_says(line: Entry, planned: Session) -> None:
    wrong = [d.code for d in planned.check(query_of(line)) if not d.warning]
    assert wrong[:1] == ([line["code"]] if "code" in line else [])
    if fate_of(line) is Fate.RENAMED:
        assert [d for d in planned.check(query_of(line, instead=True)) if not d.warning] == []


def plain(value: Any) -> Any:
    match value:
        case Decimal():
            return float(value)
        case datetime() | date():
            return str(value).removesuffix("+00:00")
        case list():
            return [plain(v) for v in value]
    return value


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[Session]:
    with sqlstream.connect(spark) as connected:
        yield connected


def row_of(session: Session, query: str) -> list[Any]:
    result = session.sql(query)
    assert isinstance(result, Query)
    ((*values,),) = result.fetchall()
    return values


def computed(session: Session, lines: list[Entry], instead: bool = False) -> list[Any]:
    """The value of each example: those without tables are columns of one query."""
    alone = [line for line in lines if "from" not in line and "query" not in line]
    asked = ", ".join(f"{line['instead' if instead else 'try']} AS c{i}" for i, line in enumerate(alone))
    together = row_of(session, f"SELECT {asked}")
    values = {id(line): value for line, value in zip(alone, together, strict=True)}
    for line in lines:
        if id(line) not in values:
            (values[id(line)],) = row_of(session, query_of(line, instead))
    return [values[id(line)] for line in lines]


@pytest.mark.spark
def test_each_example_has_the_value_of_the_page(session: Session) -> None:
    lines = [(name, line) for name, line in LINES if "streamed" not in line and "code" not in line]
    values = computed(session, [line for _, line in lines])
    wrong = {}
    for (name, line), value in zip(lines, values, strict=True):
        null, key = ("null_ours", "ours") if fate_of(line) is Fate.DIFFERS else ("null", "gives")
        wanted = None if line.get(null) else line[key]
        if plain(value) != wanted:
            wrong[name] = (plain(value), wanted)
    assert wrong == {}


@pytest.mark.spark
def test_what_differs_does_differ_and_other_names_give_the_same(session: Session) -> None:
    assert all(line.get("ours") != line.get("gives") or "null_ours" in line for _, line in LINES if "ours" in line)
    renamed = [line for _, line in LINES if fate_of(line) is Fate.RENAMED]
    assert len(computed(session, renamed, instead=True)) == len(renamed)


# --- values -----------------------------------------------------------------------------------------------------

UTC = UTC
_NULL_TEXT = "CAST(NULL AS STRING)"

# Of a row with n = 5, none = NULL, s = 'a,b,,c', doc as below, a = [3, NULL, 1], m = {x: 1}, d = -42.329, ts, dt.
DOCUMENT = '{"z": {"y": 2, "b": [1, {"c": "q"}, null]}, "s": "t\\"x", "n": null, "i": "7", "f": 1.5, "t": true}'
VALUES: dict[str, Any] = {
    # texts
    "SPLIT_INDEX(s, ',', 0)": "a", "SPLIT_INDEX(s, ',', 2)": "", "SPLIT_INDEX(s, ',', 4)": None,
    "SPLIT_INDEX(s, ',', -1)": None, "SPLIT_INDEX(s, 44, 1)": "b", "SPLIT_INDEX(none, ',', 0)": None,
    "SPLIT_INDEX('', ',', 0)": None, "SPLIT_INDEX('a.*b', '.*', 1)": "b", "SPLIT_INDEX(UPPER(s), ',', n - 2)": "C",
    "FROM_BASE64(TO_BASE64('ä'))": "ä", "TO_BASE64(none)": None,
    "IS_ALPHA('äb')": True, "IS_ALPHA('a1')": False, "IS_ALPHA('')": False, "IS_ALPHA(none)": False,
    "IS_DIGIT('12')": True, "IS_DIGIT('1.2')": False, "IS_DIGIT(none)": False,
    "IS_DECIMAL('-1.5e3')": True, "IS_DECIMAL('x')": False, "IS_DECIMAL('')": False, "IS_DECIMAL(none)": False,
    "SHA224(none)": None, "SHA256('')": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    # numbers
    "TRUNCATE(d, 2)": -42.32, "TRUNCATE(d)": -42.0, "TRUNCATE(d, -1)": -40.0, "TRUNCATE(1299, -2)": 1200,
    "TRUNCATE(CAST(1.239 AS DECIMAL(5, 3)), 2)": Decimal("1.23"), "TRUNCATE(CAST(NULL AS DOUBLE), 1)": None,
    "RAND_INTEGER(1)": 0, "RAND_INTEGER(3, 1)": 0,
    # times
    "FLOOR(ts TO DAY)": datetime(2024, 2, 29), "FLOOR(ts TO MINUTE)": datetime(2024, 2, 29, 13, 14),
    "CEIL(ts TO MINUTE)": datetime(2024, 2, 29, 13, 15), "CEIL(ts TO MONTH)": datetime(2024, 3, 1),
    "CEIL(ts TO YEAR)": datetime(2025, 1, 1), "CEIL(ts TO QUARTER)": datetime(2024, 4, 1),
    "CEIL(ts TO SECOND)": datetime(2024, 2, 29, 13, 14, 15),
    "CEIL(FLOOR(ts TO HOUR) TO HOUR)": datetime(2024, 2, 29, 13),
    "FLOOR(ts TO CENTURY)": datetime(2001, 1, 1), "CEIL(ts TO DECADE)": datetime(2030, 1, 1),
    "FLOOR(dt TO MONTH)": date(2024, 2, 1), "CEIL(dt TO MONTH)": date(2024, 3, 1), "CEIL(dt TO DAY)": date(2024, 2, 29),
    "FLOOR(dt TO YEAR)": date(2024, 1, 1), "CEIL(dt TO WEEK)": date(2024, 3, 4), "WEEK(dt)": 9,
    "TO_TIMESTAMP_LTZ(n, 0)": datetime(1970, 1, 1, 0, 0, 5),
    "TO_TIMESTAMP_LTZ(n, 3)": datetime(1970, 1, 1, 0, 0, 0, 5000),
    "TO_TIMESTAMP_LTZ(n)": datetime(1970, 1, 1, 0, 0, 0, 5000),
    "TO_TIMESTAMP_LTZ('2024-01-02 03:04:05')": datetime(2024, 1, 2, 3, 4, 5),
    "TO_TIMESTAMP_LTZ('02.01.2024', 'dd.MM.yyyy')": datetime(2024, 1, 2),
    "CONVERT_TZ('2024-07-01 12:00:00', 'Europe/Berlin', 'UTC')": "2024-07-01 10:00:00",
    "CONVERT_TZ('x', 'UTC', 'UTC')": None, "CONVERT_TZ(none, 'UTC', 'UTC')": None,
    "(dt, INTERVAL '1' DAY) OVERLAPS (DATE '2024-03-01', DATE '2024-03-02')": True,
    "(dt, DATE '2024-02-20') OVERLAPS (DATE '2024-03-01', DATE '2024-03-02')": False,
    "(ts, INTERVAL '1' HOUR) OVERLAPS (ts - INTERVAL '2' HOUR, INTERVAL '30' MINUTE)": False,
    # collections
    "ARRAY_CONCAT(a, ARRAY[n])": [3, None, 1, 5], "ARRAY_REVERSE(a)": [1, None, 3],
    "ARRAY_SLICE(a, 2)": [None, 1],
    "ARRAY_SLICE(a, -1)": [1], "ARRAY_SLICE(a, 0, 1)": [3], "ARRAY_SLICE(a, 1, -2)": [3, None],
    "ARRAY_SLICE(a, 3, 2)": [], "ARRAY_SLICE(a, 9)": [], "ARRAY_SLICE(a, 1, 9)": [3, None, 1],
    "ARRAY_SLICE(CAST(NULL AS ARRAY<INT>), 1)": None,
    "ARRAY_SORT(a, TRUE)": [None, 1, 3], "ARRAY_SORT(a, FALSE)": [3, 1, None],
    "ARRAY_SORT(a, TRUE, FALSE)": [1, 3, None],
    "ARRAY_SORT(a, FALSE, TRUE)": [None, 3, 1],
    "ELEMENT(ARRAY[n])": 5, "ELEMENT(CAST(ARRAY() AS ARRAY<INT>))": None, "ELEMENT(CAST(NULL AS ARRAY<INT>))": None,
    "MAP_UNION(m, MAP['x', 2, 'y', 3])": {"x": 2, "y": 3}, "MAP_UNION(m)": {"x": 1},
    "MAP_UNION(m, MAP['x', CAST(NULL AS INT)], MAP['z', 4])": {"x": None, "z": 4},
    # IS JSON
    "doc IS JSON": True, "doc IS JSON OBJECT": True, "doc IS JSON ARRAY": False, "none IS JSON": False,
    "s IS NOT JSON": True, "' [1]' IS JSON ARRAY": True, "'\"x\"' IS JSON SCALAR": True, "'{' IS JSON OBJECT": False,
    # JSON_VALUE
    "JSON_VALUE(doc, '$.z.y')": "2", "JSON_VALUE(doc, '$.s')": 't"x', "JSON_VALUE(doc, '$.n')": None,
    "JSON_VALUE(doc, '$.z')": None, "JSON_VALUE(doc, '$.z.b[1].c')": "q", "JSON_VALUE(doc, '$[''z''].b[0]')": "1",
    "JSON_VALUE(doc, '$.t' RETURNING BOOLEAN)": True, "JSON_VALUE(doc, '$.i' RETURNING INT)": 7,
    "JSON_VALUE(doc, '$.f' RETURNING DOUBLE)": 1.5, "JSON_VALUE(doc, '$.s' RETURNING INT)": None,
    "JSON_VALUE(doc, '$.s' RETURNING INT DEFAULT 3 ON ERROR)": 3, "JSON_VALUE(doc, '$.z' RETURNING INT)": None,
    "JSON_VALUE(doc, 'strict $.q' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "w",
    "JSON_VALUE(doc, 'lax $.q' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "e",
    "JSON_VALUE(doc, 'lax $.z' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "e",
    "JSON_VALUE(doc, '$.z' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "w",
    "JSON_VALUE(doc, '$.n' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "e",
    "JSON_VALUE(s, 'lax $.q' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": "w",
    "JSON_VALUE(none, '$.q' DEFAULT 'e' ON EMPTY DEFAULT 'w' ON ERROR)": None,
    "JSON_VALUE(doc, 'lax $.q' RETURNING INT DEFAULT n ON EMPTY)": 5, "JSON_VALUE(s, '$.a')": None,
    "JSON_VALUE('{\"a b\": \"x\"}', '$.[''a b'']' ERROR ON ERROR)": "x", "JSON_VALUE('3', '$' ERROR ON EMPTY)": "3",
    "JSON_VALUE(JSON_QUERY(doc, '$.z'), '$.b[1].c')": "q",
    # JSON_QUERY
    "JSON_QUERY(doc, '$.z')": '{"y":2,"b":[1,{"c":"q"},null]}', "JSON_QUERY(doc, '$.z.b')": '[1,{"c":"q"},null]',
    "JSON_QUERY(doc, '$.s')": None, "JSON_QUERY(doc, '$.s' WITH WRAPPER)": '["t\\"x"]',
    "JSON_QUERY(doc, '$.z.b' WITH CONDITIONAL WRAPPER)": '[1,{"c":"q"},null]',
    "JSON_QUERY(doc, '$.z.b' WITH UNCONDITIONAL ARRAY WRAPPER)": '[[1,{"c":"q"},null]]',
    "JSON_QUERY(doc, 'lax $.q' EMPTY OBJECT ON EMPTY)": "{}", "JSON_QUERY(doc, '$.n' EMPTY ARRAY ON EMPTY)": "[]",
    "JSON_QUERY(s, '$' EMPTY ARRAY ON ERROR)": "[]", "JSON_QUERY(none, '$' EMPTY ARRAY ON ERROR)": None,
    "JSON_QUERY('[{\"c\":1},{\"d\":2},{\"c\":[3]}]', '$[*].c')": "[1,[3]]",
    "JSON_QUERY('{\"a\":[{\"b\":[1,2]},{\"b\":[3]}]}', '$.a[*].b[*]')": "[1,2,3]",
    "JSON_QUERY('{\"a\":{\"x\":1,\"y\":2}}', '$.a.*')": "[1,2]", "JSON_QUERY('{}', 'lax $.a[*]')": "[]",
    "JSON_QUERY('{}', '$.a[*]' EMPTY OBJECT ON ERROR)": "{}",
    "JSON_QUERY('[\"a\",\"b\"]', '$' RETURNING ARRAY<STRING>)": ["a", "b"],
    # JSON_EXISTS
    "JSON_EXISTS(doc, '$.z.b[1]')": True, "JSON_EXISTS(doc, '$.q')": False, "JSON_EXISTS(doc, '$.n')": False,
    "JSON_EXISTS(none, '$.q')": None, "JSON_EXISTS(s, '$.q' UNKNOWN ON ERROR)": None,
    "JSON_EXISTS(s, '$.q' TRUE ON ERROR)": True, "JSON_EXISTS(doc, 'lax $.q' TRUE ON ERROR)": False,
    "JSON_EXISTS(doc, '$.z.b[*]')": True,
    # building
    "JSON_STRING(none)": None, "JSON_STRING('q\"')": '"q\\""', "JSON_STRING(1.50)": "1.50",
    "JSON_STRING('null')": '"null"',
    "JSON_STRING(m)": '{"x":1}', "JSON_STRING(a)": "[3,null,1]", "JSON_STRING(NAMED_STRUCT('k', none))": '{"k":null}',
    "JSON_QUOTE(none)": None, "JSON_UNQUOTE('x')": "x", "JSON_UNQUOTE('\"x')": '"x', "JSON_UNQUOTE(none)": None,
    "JSON_UNQUOTE(JSON_QUOTE(s))": "a,b,,c",
    "JSON_OBJECT()": "{}", "JSON_OBJECT('b' VALUE n, 'a' VALUE s)": '{"b":5,"a":"a,b,,c"}',
    "JSON_OBJECT('x' VALUE none)": '{"x":null}', "JSON_OBJECT('x' VALUE none, 'y' : 1 ABSENT ON NULL)": '{"y":1}',
    "JSON_OBJECT(s VALUE 1)": '{"a,b,,c":1}', "JSON_OBJECT('q' VALUE JSON_ARRAY(n, 'x'))": '{"q":[5,"x"]}',
    "JSON_OBJECT('q' VALUE JSON(doc))": '{"q":' + DOCUMENT + "}", "JSON_OBJECT('q' VALUE JSON(none))": '{"q":null}',
    "JSON_OBJECT('o' VALUE JSON_OBJECT('i' VALUE none) ABSENT ON NULL)": '{"o":{"i":null}}',
    "JSON_ARRAY()": "[]", "JSON_ARRAY(none, n)": "[5]", "JSON_ARRAY(none, n NULL ON NULL)": "[null,5]",
    "JSON_ARRAY(JSON_OBJECT('a' VALUE n), JSON_STRING(n))": '[{"a":5},"5"]',
    # VARIANT
    "PARSE_JSON(doc):z.y::INT": 2, "PARSE_JSON(doc)['z']['b'][0]::INT": 1, "PARSE_JSON(doc):`s`::STRING": 't"x',
    "PARSE_JSON(doc):z.b[1].c::STRING": "q", "PARSE_JSON(doc):q IS NULL": True,
}  # fmt: skip
ROW = {
    "n": "5", "none": _NULL_TEXT, "s": "'a,b,,c'", "doc": f"r'{DOCUMENT}'", "a": "ARRAY[3, CAST(NULL AS INT), 1]",
    "m": "MAP['x', 1]", "d": "CAST(-42.329 AS DOUBLE)", "ts": "TIMESTAMP '2024-02-29 13:14:14.5'",
    "dt": "DATE '2024-02-29'",
}  # fmt: skip


def differing(values: list[Any], expected: list[Any], names: list[str]) -> dict[str, tuple[Any, Any]]:
    def bare(value: Any) -> Any:
        return value.replace(tzinfo=None) if isinstance(value, datetime) else value

    pairs = zip(names, map(bare, values), expected, strict=True)
    return {
        name: (value, wanted) for name, value, wanted in pairs if value != wanted or type(value) is not type(wanted)
    }


@pytest.mark.spark
def test_values_over_finished_data(session: Session) -> None:
    """Types of columns are Spark's to know there: what depends on them is asked of constants."""
    known_to_spark = ("n)", "44, 1", "dt TO", "d, ", "(d)", "OVERLAPS", "n, 0", "1299")
    names = [name for name in VALUES if not any(part in name for part in known_to_spark)]
    row = ", ".join(f"{value} AS {name}" for name, value in ROW.items())
    asked = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
    values = row_of(session, f"SELECT {asked} FROM (SELECT {row}) AS t")
    assert differing(values, [VALUES[name] for name in names], names) == {}


@pytest.mark.spark
def test_values_on_a_stream(session: Session) -> None:
    columns = ", ".join(f"{name} AS {value}" for name, value in ROW.items() if name != "none")
    asked = ", ".join(f"{name} AS c{i}" for i, name in enumerate(VALUES))
    script = f"""
    CREATE TABLE t (id INT, none STRING, {columns}) WITH ('connector' = 'test');
    SELECT {asked} FROM t;
    """
    with StreamTest(script, session) as test:
        test.rows("t", [(1, None)])
        ((_, *values),) = test.output()
    assert differing(values, list(VALUES.values()), list(VALUES)) == {}


ERRORS = {
    "ELEMENT(ARRAY[1, 2])": "ELEMENT takes an array of at most one element",
    "JSON_VALUE('{}', 'lax $.a' ERROR ON EMPTY)": "the result of JSON_VALUE at $.a is empty",
    "JSON_QUERY('{}', '$.a[*].b' ERROR ON ERROR)": "the result of JSON_QUERY at $.a[*].b is an error",
    "JSON_EXISTS('{', '$.a' ERROR ON ERROR)": "the result of JSON_EXISTS at $.a is an error",
    "JSON_OBJECT('a' VALUE JSON('{'))": "given a text that is no JSON",
}


@pytest.mark.spark
@pytest.mark.parametrize("call", ERRORS)
def test_errors_say_what_is_wrong(call: str, session: Session) -> None:
    with pytest.raises(SqlStreamError, match=re.escape(ERRORS[call])):
        row_of(session, f"SELECT {call}")
