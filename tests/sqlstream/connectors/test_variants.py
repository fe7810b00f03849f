"""VARIANT columns of JSON in files of this machine: tasks decode the record, and Spark makes the values of its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session

pytestmark = pytest.mark.spark

GOOD = {
    "1.25": "1.25", "1234567890123456789012": "1234567890123456789012", '"a"': "a", "true": "true", "null": None,
    '{"x": 1, "x": {"y": 2.5}}': '{"x":{"y":2.5}}', '[1, {"k": "a\\tb"}]': '[1,{"k":"a\\tb"}]', "{'q': 1}": '{"q":1}',
}  # fmt: skip
"""Values as records have them, and as texts of the VARIANT."""
DEEP = "[" * 1001 + "]" * 1001
BAD = {
    '{"id": "x", "v": 1}': 'column "id" of type INT is "x"',
    '{"id": 1, "v": nul}': "the record is no JSON object",
    '{"id": 1, "l": {"a": 1}}': 'column "l" of type ARRAY<VARIANT> is "{"a": 1}"',
    f'{{"id": 1, "v": {DEEP}}}': "it is nested too deeply for a VARIANT",
}
COLUMNS = "id INT, v VARIANT, l ARRAY<VARIANT>, s STRUCT<a: VARIANT, b: INT>"
QUERY = "SELECT id, CAST(v AS STRING) AS v, TO_JSON(l) AS l, CAST(s.a AS STRING) AS a, v IS NULL AS lacks FROM t"


@pytest.fixture
def session(spark) -> Iterator[Session]:
    with Session(spark) as own_session:
        yield own_session


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(result.fetchall(), key=repr)


def test_variants_are_read_by_tasks_and_bad_records_are_dead_letters_with_their_lines(
    session: Session, tmp_path: Path
) -> None:
    good = [f'{{"id": {n}, "v": {value}, "l": [{value}], "s": {{"a": {value}}}}}' for n, value in enumerate(GOOD)]
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.json"
    path.write_text("\n".join([*good, *BAD, '{"id": 99}']) + "\n")
    expected: list[tuple[Any, ...]] = [
        (n, text, f"[{value_of(text)}]", text, False) for n, text in enumerate(GOOD.values())
    ]
    expected = sorted([*expected, (99, None, None, None, True)], key=repr)
    declared = f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}'"
    session.sql(f"{declared}, 'on-error' = 'dead-letter:dead')")
    session.sql("CREATE TABLE dead (record STRING, error STRING, place STRING) WITH ('connector' = 'memory')")
    session.sql("""CREATE TABLE o (id INT, v STRING, l STRING, a STRING, lacks BOOLEAN)
        WITH ('connector' = 'memory')""")
    job = session.sql(f"INSERT INTO o {QUERY}")
    assert isinstance(job, Job)
    assert job.wait(200)
    assert rows(session, "SELECT * FROM o") == expected
    letters = (
        (record, f"SS402: {reason}", f"{path}:{line}")
        for line, (record, reason) in enumerate(BAD.items(), len(good) + 1)
    )
    assert rows(session, "SELECT * FROM dead") == sorted(letters)
    session.sql(f"DROP TABLE t; {declared})")
    for mode in ("streaming", "batch"):
        session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
        with pytest.raises(SqlStreamError) as error:
            rows(session, QUERY)
        said = f'SS402: a row in line {len(good) + 1} of file "{path}" cannot be read: column "id" of type INT is "x"'
        assert said in str(error.value), mode
    path.write_text("\n".join(good) + "\n")
    grouped = "SELECT CAST(v AS STRING), COUNT(*) FROM t WHERE id < 2 GROUP BY CAST(v AS STRING)"
    assert rows(session, grouped) == [("1.25", 1), ("1234567890123456789012", 1)]


def value_of(text: str | None) -> str:
    """A text of a VARIANT as JSON."""
    return "null" if text is None else json.dumps(text) if text == "a" else text
