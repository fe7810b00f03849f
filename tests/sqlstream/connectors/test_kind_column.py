"""Files of which a column tells the kind of each row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors import validate
from sqlstream.session import Session
from tests.depth import usually

OPTIONS = {"path": "/nowhere", "format": "json", "source__kind_column": "op"}


def problems(table: Any) -> list[str]:
    return [d.message for d in validate(table, {})]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            "op STRING; a INT",
            {"changelog_mode": None},
            "option \"source.kind-column\" needs a 'changelog-mode' of more",
        ),
        ("kind STRING; a INT", {}, 'option "source.kind-column" names the column "op", which'),
        ("op INT; a INT", {}, 'column "op" of option "source.kind-column" is of type INT, not STRING'),
    ],
)
def test_wrong_columns_are_refused(make_table: Any, columns: str, options: dict[str, Any], message: str) -> None:
    table = make_table("filesystem", columns, **OPTIONS)
    assert any(found.startswith(message) for found in problems(table)), problems(table)


CHANGES = [("INSERT", 1, 10), ("+I", 2, 5), ("-U", 1, 10), ("update_after", 1, 11), ("D", 2, 5)]


def _write(folder: Path, format: str, rows: list[tuple[str, int, int]]) -> None:  # noqa: A002
    folder.mkdir()
    if format == "parquet":
        pq.write_table(
            pa.table(list(map(pa.array, zip(*rows, strict=True))), names=["op", "a", "v"]), folder / "1.parquet"
        )
        return
    lines = (f"{op},{a},{v}" if format == "csv" else f'{{"op": "{op}", "a": {a}, "v": {v}}}' for op, a, v in rows)
    (folder / "1.txt").write_text("\n".join(lines) + "\n")


def left(session: Session, query: str) -> list[tuple[Any, ...]]:
    """The rows that the changes of a query amount to."""
    changes = session.sql(query).changes()  # type: ignore[union-attr]
    rows: Counter[tuple[Any, ...]] = Counter()
    for kind, row in changes:
        rows[tuple(row)] += 1 if kind.value in ("+I", "+U") else -1
    return list((+rows).elements())


@pytest.mark.spark
@pytest.mark.parametrize("format", usually(["json", "csv", "parquet"], "json"))
def test_changes_of_files_amount_to_the_rows_that_are_left(spark: Any, tmp_path: Path, format: str) -> None:  # noqa: A002
    _write(tmp_path / "in", format, CHANGES)
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (op STRING, a BIGINT, v BIGINT) WITH ('connector' = 'filesystem',
            'format' = '{format}', 'path' = '{tmp_path}/in', 'source.kind-column' = 'op',
            'changelog-mode' = 'I,UB,UA,D')""")
        assert left(session, "SELECT COUNT(*) AS n, SUM(v) AS s FROM t") == [(1, 11)]
        assert left(session, "SELECT * FROM t") == [(None, 1, 11)]


@pytest.mark.spark
def test_a_kind_that_is_not_declared_fails_the_job(spark: Any, tmp_path: Path) -> None:
    _write(tmp_path / "in", "json", [("+I", 1, 10), ("-U", 1, 10)])
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (op STRING, a INT, v INT, PRIMARY KEY (a) NOT ENFORCED) WITH (
            'connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in', 'source.kind-column' = 'op',
            'changelog-mode' = 'I,UA,D')""")
        with pytest.raises(
            Exception, match=r'SS402: column "op" of table "t" tells the kind "-U" of a row, which is none'
        ):
            left(session, "SELECT SUM(v) FROM t")


@pytest.mark.long
@pytest.mark.spark
def test_a_record_that_cannot_be_read_has_no_kind_and_is_skipped(spark: Any, tmp_path: Path) -> None:
    """Values are read as in files without kinds: "yes" is no TRUE, 1.9 of JSON is 1."""
    for format in ("csv", "json"):  # noqa: A001
        _write(tmp_path / format, format, [("+I", 1, 10), ("+I", 2, 20), ("+U", 1, 11)])
        path = tmp_path / format / "1.txt"
        odd = "+I,3,x\n+I,,5\n" if format == "csv" else '{"op": "+I", "a": 3, "v": "x"}\n{"op": "+I", "v": 5.9}\noops\n'
        path.write_text(path.read_text() + odd)
        with Session(spark) as session:
            session.sql(f"""CREATE TABLE t (op STRING, a INT, v INT, PRIMARY KEY (a) NOT ENFORCED) WITH (
                'connector' = 'filesystem', 'format' = '{format}', 'path' = '{tmp_path}/{format}',
                'source.kind-column' = 'op', 'changelog-mode' = 'I,UA,D', 'on-error' = 'skip')""")
            assert sorted(left(session, "SELECT SUM(v) AS s FROM t")) == [(31,)]
