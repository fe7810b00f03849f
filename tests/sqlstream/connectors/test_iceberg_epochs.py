"""How many checkpoints an Iceberg table remembers, and what happens to the others; without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.environment import SinkWriteRange
from sqlstream.connectors.written import WrittenBytes
from sqlstream.errors import ConnectorError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.history import begun_at

pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")
from sqlstream.connectors.lakes import iceberg_epochs
from tests.sqlstream.connectors.test_iceberg import (
    append,
    catalog,
    declared,
    stored,
    table_of,
    upsert,
    writer_of,
)
from tests.sqlstream.connectors.test_iceberg_conflicts import IcebergRace, race

__all__ = ["catalog", "race"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than three checkpoints old ones are forgotten, and there are six at most."""
    monkeypatch.setattr(iceberg_epochs, "KEPT", 3)
    monkeypatch.setattr(iceberg_epochs, "MOST", 6)


def remembered(catalog: dict[str, str]) -> list[str]:
    start = iceberg_epochs.application("")
    return sorted(key.removeprefix(start) for key in table_of(catalog).properties if key.startswith(start))


@pytest.mark.parametrize(("old_ms", "left"), [(-1000, 3), (3_600_000, 6)])
def test_a_table_remembers_a_bounded_number_of_checkpoints(
    catalog: dict[str, str], few: None, monkeypatch: pytest.MonkeyPatch, old_ms: int, left: int
) -> None:
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", old_ms)
    for number in range(20):
        to = writer_of(declared(catalog), f"run-{number:02}")
        for _ in range(2):
            append(to, 0, (number, "a"))  # a micro-batch that is repeated
        assert len(remembered(catalog)) == min(number + 1, left)
    assert sorted(stored(catalog)) == [(number, "a") for number in range(20)]
    assert remembered(catalog) == [f"run-{number:02}" for number in range(20 - left, 20)]
    runs = [s.summary.additional_properties.get(iceberg_epochs.RUN) for s in table_of(catalog).snapshots()]
    assert runs == [f"run-{number:02}" for number in range(20)]
    until = iceberg_epochs.forgotten_until(table_of(catalog))
    last = [*table_of(catalog).snapshots()][19 - left].timestamp_ms
    assert until == datetime.fromtimestamp(last / 1000, UTC)


def test_a_snapshot_of_a_tag_makes_no_checkpoint_older(
    catalog: dict[str, str], few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots after it have expired, of checkpoints that have committed since."""
    for run in ("tagged", "b", "c", "d"):
        append(writer_of(declared(catalog), run), 0, (1, run))
    table = table_of(catalog)
    first, *between, last = table.snapshots()
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in between]).commit()
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", -1000)
    append(writer_of(declared(catalog), "e"), 0, (1, "e"))
    assert iceberg_epochs.forgotten_until(table_of(catalog)) == datetime.fromtimestamp(last.timestamp_ms / 1000, UTC)


def test_checkpoints_whose_snapshots_have_expired_are_the_oldest(
    catalog: dict[str, str], few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", -1000)
    for run in ("c", "b", "a"):
        append(writer_of(declared(catalog), run), 0, (1, run))
    table = table_of(catalog)
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.snapshots()[:2]]).commit()
    append(writer_of(declared(catalog), "a"), 1, (1, "a"))
    append(writer_of(declared(catalog), "z"), 0, (1, "z"))
    assert len(remembered(catalog)) == 3
    assert {"a", "z"} < {*remembered(catalog)}


def test_a_job_that_runs_goes_on_where_the_table_has_forgotten_it(
    catalog: dict[str, str], few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has overwritten the table with its first micro-batch."""
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", -1000)
    first = writer_of(declared(catalog), "first", {})
    append(first, 0, (0, "first"))
    for number in range(1, 5):
        append(writer_of(declared(catalog), f"run-{number}"), 0, (number, "other"))
    assert "first" not in remembered(catalog)
    for _ in range(2):
        append(first, 1, (5, "first"))
    assert stored(catalog) == [(0, "first"), *((n, "other") for n in range(1, 5)), (5, "first")]
    assert "first" in remembered(catalog)


def test_a_checkpoint_that_commits_meanwhile_is_not_forgotten(
    catalog: dict[str, str], few: None, race: IcebergRace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by a micro-batch that changes no file: it is a snapshot as well."""
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", -1000)
    keyed = writer_of(declared(catalog, keys=["id"]), "keyed")
    upsert(keyed, 0, (1, "a", "+I"))
    for number in range(2):
        append(writer_of(declared(catalog), f"run-{number}"), 0, (number + 2, "a"))
    race.begin(lambda: upsert(keyed, 1, (77, "a", "-D")))
    append(writer_of(declared(catalog), "last"), 0, (9, "a"))
    assert remembered(catalog) == ["keyed", "last", "run-1"]
    assert iceberg_epochs.epoch_of(table_of(catalog), "keyed") == 1


# --- restarts -------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_may_be_forgotten_is_refused(
    catalog: dict[str, str], few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_epochs, "OLD_MS", -1000)
    table, now = declared(catalog), datetime.now(UTC)

    def require_intact(run: str, *, has_written: bool = True, **more: Any) -> None:
        given = {
            "run": run, "resumed": True, "begun": 3, "begun_at": now, "anew": False, "written": WrittenBytes(), **more
        }  # fmt: skip
        kind: Any = connector("iceberg")
        kind.require_intact(type("Environment", (), given), table, SinkWriteRange(-1) if has_written else None, False)

    append(writer_of(table, "0"), 3, (0, "a"))
    require_intact("0")
    require_intact("other")
    for number in range(1, 5):
        append(writer_of(table, str(number)), 3, (number, "a"))
    with pytest.raises(ConnectorError) as raised:
        require_intact("0")
    until = iceberg_epochs.forgotten_until(table_of(catalog))
    assert until is not None
    assert raised.value.diagnostic.render() == (
        'SS543: Iceberg table "t" does not know whether it has micro-batch 3 of this checkpoint: it has forgotten '
        f"checkpoints that wrote until {until:%Y-%m-%d %H:%M} UTC\n"
        "DETAIL: They are forgotten where many newer ones have written into the table. Rows might be written twice.\n"
        "HINT: Look which rows are there; then start in a new directory ('execution.checkpointing.dir'), or from this "
        "one ('execution.state-recovery.path') where the rows of its last micro-batch are missing."
    )
    with pytest.raises(ConnectorError):
        require_intact("0", begun_at=None)
    require_intact("4")
    require_intact("0", begun_at=until + timedelta(seconds=1))  # of which the table would know
    require_intact("0", begun=None)
    require_intact("0", anew=True)
    require_intact("0", resumed=False)
    require_intact("0", has_written=False)


def test_a_micro_batch_has_begun_at_the_time_in_its_offsets(tmp_path: Path) -> None:
    folder = tmp_path / "spark/offsets"
    folder.mkdir(parents=True)
    (folder / "3").write_text(f"v1\n{json.dumps({'batchTimestampMs': 1_700_000_000_123})}\n{{}}\n")
    (folder / "4").write_text("v1\n")
    (folder / "5").write_text("v1\nno JSON\n")
    storage = LocalStorage(tmp_path)
    assert begun_at(storage, 3) == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert [begun_at(storage, number) for number in (4, 5, 6)] == [None, None, None]
