"""The part of the fault test with sinks on little: one fault of one sink, and the table."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from tests.faults import sinks
from tests.faults.disk import Disk
from tests.faults.sinks import FAULTS, Outcome, Struck, struck_by, table_of

LOST = Outcome("log", "full", said="SS465: a disk that the job writes to is full", wrong="2 lost")
KNOWN = [
    LOST,
    Outcome("folders", "folder gone"),
    Outcome("log", "log gone", said='SS420: "/tmp/x/out/_spark_metadata" of table "o" does not\nDETAIL: more'),
    Outcome("log", "read-only", said="SS400: odd"),
    Outcome("folders", "read-only", tried=False),
]


def test_the_table_says_what_came_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=160).print(table_of(KNOWN))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert [tuple(row[2:]) for row in cells] == [
        ("SS465: a disk that the job writes to is full", "2 lost"),
        ("goes on", "equal"),
        ('SS420: "…/_spark_metadata" of table "o" does not', "equal"),
        ("SS400: odd", "UNCLEAR"),
        ("not tried: no mounting", "-"),
    ]
    assert [item.holds for item in KNOWN] == [False, True, True, False, True]


def test_what_was_taken_away_comes_back_among_what_has_been_written_since(tmp_path: Path) -> None:
    struck = Struck(Disk(tmp_path, False))
    (struck.out / "_spark_metadata").mkdir(parents=True)
    (struck.out / "_spark_metadata/0").write_text("0")
    FAULTS["folder gone"].strike(struck)
    (struck.out / "_spark_metadata").mkdir(parents=True)
    (struck.out / "_spark_metadata/1").write_text("1")
    FAULTS["folder gone"].heal(struck)
    assert {path.name: path.read_text() for path in (struck.out / "_spark_metadata").iterdir()} == {"0": "0", "1": "1"}
    (struck.kept / "_spark_metadata").rmdir()
    struck.kept.rmdir()
    FAULTS["file in its place"].strike(struck)
    assert struck.out.is_file()
    FAULTS["file in its place"].heal(struck)
    assert len([*struck.out.rglob("*")]) == 3


@pytest.mark.spark
def test_a_directory_that_a_file_takes_the_place_of_is_told_and_all_rows_come(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sinks, "disk_at", lambda folder: nullcontext(Disk(folder, False)))
    assert not struck_by(spark, "log", "full", tmp_path / "a").tried
    outcome = struck_by(spark, "log", "file in its place", tmp_path / "b")
    assert outcome.wrong is None
    assert outcome.said is not None
    assert outcome.said.startswith(("SS439", "SS420")), "Spark sees the file first, or whoever looks for the log does"
