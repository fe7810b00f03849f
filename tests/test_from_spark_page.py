"""docs/from_spark.md: the DataFrames and the SQL of each pair give the same rows of the same files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.query import Query
from sqlstream.testing.spark import LocalSession, local_spark

PAGE = Path(__file__).parent.parent / "docs" / "from_spark.md"
LAST = "the last"
"""The item of a row long after the others, which closes windows: Spark keeps its own to the next run."""

_ROWS: dict[str, list[tuple[object, ...]]] = {
    "orders": [
        (1, "pen", 2.5, "12:00:01"), (2, "ink", 7.0, "12:00:20"), (2, "ink", 7.0, "12:00:20"),
        (3, "pen", 3.0, "12:00:55"), (4, "pen", 1.0, "12:01:10"), (5, "ink", 8.0, "12:03:00"),
        (6, "pen", 2.0, "12:03:05"), (9, LAST, 0.0, "23:00:00"),
    ],
    "payments": [(1, 2.5, "12:00:30"), (3, 3.0, "12:02:30"), (5, 8.0, "12:03:59"), (9, 0.0, "23:00:00")],
    "items": [("pen", 10), ("ink", 200)],
}  # fmt: skip
_COLUMNS = {
    "orders": ("id", "item", "price", "at"),
    "payments": ("order_id", "amount", "paid"),
    "items": ("name", "weight"),
}
_TIMES = {"at", "paid"}


def _blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sql)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def _pairs() -> Iterator[tuple[str, str]]:
    for (first, frames), (second, sql) in pairwise(_blocks()[2:]):
        if (first, second) == ("python", "sql"):
            yield frames, sql


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("from_spark")
    for table, rows in _ROWS.items():
        named = [dict(zip(_COLUMNS[table], row, strict=True)) for row in rows]
        lines = [{k: f"2024-02-29T{v}" if k in _TIMES else v for k, v in row.items()} for row in named]
        (folder / table).mkdir()
        (folder / table / "rows.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _in_folder(text: str, folder: Path) -> str:
    return re.sub(rf"(['\"])({'|'.join(_ROWS)})\1(?=\)|,)", rf"\g<1>{folder}/\g<2>\g<1>", text)


def test_every_block_is_of_a_pair():
    languages = [language for language, _ in _blocks()]
    assert languages == ["python", "sql"] * (len(languages) // 2)
    assert len([*_pairs()]) >= 8


@pytest.mark.spark
@pytest.mark.parametrize(("frames", "sql"), [*_pairs()], ids=lambda text: " ".join(text.split())[:50])
def test_dataframes_and_sql_give_the_same_rows(frames, sql, folder, tmp_path):
    definitions = _blocks()[:2]
    with LocalSession() as session:
        session.sql(_in_folder(definitions[1][1], folder))
        query = session.sql(_in_folder(sql, folder))
        assert isinstance(query, Query)
        ours = [tuple(row.values()) for row in query.table().to_arrow().to_pylist()]
        program, mode = definitions[0][1] + frames, "complete" if "# complete" in frames else "append"
        theirs = _rows_of(_in_folder(program, folder), mode, tmp_path)
    assert _spelled(ours) == _spelled(theirs)
    assert theirs


def _rows_of(program: str, mode: str, checkpoint: Path) -> list[tuple[object, ...]]:
    """The rows of ``result`` after all files."""
    spark = local_spark()
    names: dict[str, object] = {"spark": spark, "F": F}
    exec(program, names)
    result = names["result"]
    assert isinstance(result, DataFrame)
    collected: dict[int, list[tuple[object, ...]]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        collected[batch] = [tuple(row) for row in rows.collect()]

    writer = result.writeStream.outputMode(mode).foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    batches = [collected[batch] for batch in sorted(collected)]
    return batches[-1] if mode == "complete" else [row for rows in batches for row in rows]


def _spelled(rows: list[tuple[object, ...]]) -> list[str]:
    """In one order, without those of the last row, and times without their zone."""
    texts = (", ".join(re.sub(r"\+00:00$", "", str(value)) for value in row) for row in rows)
    return sorted(text for text in texts if LAST not in text)
