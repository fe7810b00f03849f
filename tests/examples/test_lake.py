"""The demo of the lake: its orders, what it says without PostgreSQL, and that the table is what PostgreSQL has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from examples.lake import demo, shop
from examples.lake.demo import Demo, Differs, Lake
from sqlstream.jobs import JobState
from tests.faults.processes import descendants

ROOT = Path(__file__).parents[2]


def test_it_says_what_to_install_where_there_is_no_postgres(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(shop, "find_spec", lambda _: None)
    assert demo.main(["--seconds", "1"]) == 1
    assert "needs PostgreSQL, whose package is not installed: pip install pgserver" in capsys.readouterr().err


@pytest.fixture
def over_a_table(tmp_path: Path) -> Any:
    """A demo whose job has written two orders."""
    lake = Lake(tmp_path)
    assert lake.table() is None
    rows = pa.table({"id": [1, 2], "campaign": ["radio", None], "amount": [20, 30], "status": ["shipped", "open"]})
    lake._catalog.create_namespace("shop")
    lake._catalog.create_table("shop.orders", rows.schema).append(rows)
    made = Demo.__new__(Demo)
    made.lake = lake
    yield made
    lake.close()


def test_duckdb_reads_the_newest_snapshot(over_a_table: Demo):
    assert over_a_table._found() == "DuckDB finds 2 orders, 1 shipped, in snapshot 1, radio leads with 20"
    table = over_a_table.lake.table()
    assert table is not None
    table.append(table.scan().to_arrow())
    assert over_a_table._found() == "DuckDB finds 4 orders, 2 shipped, in snapshot 2, radio leads with 40"


def test_it_is_followed_for_some_time_after_the_first_snapshot(over_a_table: Demo, monkeypatch: pytest.MonkeyPatch):
    table, said = over_a_table.lake.table(), list[str]()
    answers = iter([None, None])
    monkeypatch.setattr(Lake, "table", lambda self: next(answers, table))
    monkeypatch.setattr(demo, "_LOOK_SECONDS", 0.01)
    job = SimpleNamespace(state=JobState.RUNNING, exception=None)
    over_a_table._session = SimpleNamespace(sql=lambda _: None, jobs=[job])  # type: ignore[assignment]
    over_a_table._script = ""
    traffic = SimpleNamespace(start=lambda: None, require_alive=lambda: None, shop=SimpleNamespace(clicks=9, orders=1))
    over_a_table.traffic = traffic  # type: ignore[assignment]
    over_a_table.follow(0.2, said.append)
    assert said[:2] == ["0 s: 9 clicks and 1 orders so far; DuckDB finds no snapshot yet"] * 2
    assert said[2].endswith("DuckDB finds 2 orders, 1 shipped, in snapshot 1, radio leads with 20")
    assert len(said) > 3


class Messages:
    """In place of a producer of Kafka."""

    def __init__(self, _: object) -> None:
        self.produce = lambda topic, message: sent.append((topic, json.loads(message)))

    def poll(self, _: float) -> None:
        pass

    def flush(self, _: float) -> int:
        return 0


sent: list[tuple[str, Any]] = []


@pytest.mark.long
def test_orders_come_change_and_go(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pgserver", reason="pgserver is not made for this Python")
    monkeypatch.setattr(shop, "Producer", Messages)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with shop.postgres(Path(name) / "postgres") as server:
            traffic = shop.Traffic("", server, 500)
            traffic.start()
            time.sleep(5)
            traffic.stop()
            rows = traffic.expected()
    clicks = {fields["click"]: fields["campaign"] for topic, fields in sent if topic == "clicks"}
    assert [*clicks.values()] == traffic.campaigns
    assert len(clicks) == traffic.shop.clicks > 9 * len(rows) > 500
    assert {status for *_, status in rows} == {"open", "shipped"}
    assert [key for key, *_, status in rows if status == "shipped" and key % 10 == 0] == []


def test_a_row_that_differs_fails_it(over_a_table: Demo):
    over_a_table.traffic = SimpleNamespace(  # type: ignore[assignment]
        expected=lambda: [(1, "radio", 20, "shipped"), (2, "search", 30, "open")]
    )
    with pytest.raises(Differs, match=r"^PostgreSQL has 2 orders, Iceberg 2; 2 rows differ$"):
        [*over_a_table.summary()]


@pytest.mark.spark
@pytest.mark.long
def test_the_command_ends_by_itself_and_leaves_nothing(tmp_path: Path):
    pytest.importorskip("pgserver", reason="pgserver is not made for this Python")
    command = [sys.executable, "-m", "examples.lake.demo", "--seconds", "20", "--rate", "500"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_MASTER": "local[2]"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"DuckDB finds ([\d,]+) orders, [\d,]+ shipped, in snapshot (\d+)", done.stdout)
    assert len({*counts}) > 1
    assert re.search(r"The Iceberg table has the [\d,]+ others as PostgreSQL has them, in \d+ snapshots\.", done.stdout)
    assert "0 restarts" in done.stdout
    left = [process.command for process in descendants(1) if "sqlstream-lake-" in process.command]
    assert left == []
