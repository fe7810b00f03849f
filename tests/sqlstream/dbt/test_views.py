"""Materialized views of dbt: their scripts, what an unchanged, a changed and a failing model does. No dbt, no Spark."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.dbt import views
from sqlstream.dbt.views import KeptView, names_in
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import read_record, write_record
from sqlstream.upgrade.starting import OwnProcess
from tests.sqlstream.jobs.records.written import ELSEWHERE, GONE, life, record

SETTINGS = {"sqlstream.views.dir": "/warehouse/views"}
CREATE = "CREATE OR REPLACE MATERIALIZED VIEW `dbt`.`sales`.`totals` AS\nSELECT k, COUNT(*) AS n FROM bids GROUP BY k"


class Process:
    """In place of ``sqlstream serve``: writes what its job leaves, as far as it gets."""

    status, epochs = "RUNNING", True
    failed: str | None = None
    started: list[list[str]] = []  # noqa: RUF012 — of all instances

    def __init__(self, command, job, checkpoint, shown):
        self.command, self.storage, self.log = command, LocalStorage(Path(checkpoint)), "log"

    def start(self):
        Process.started.append(self.command[1:])
        if Process.failed is not None:
            return
        if Process.epochs:
            self.storage.write("spark/commits/0", "v1\n{}")
        error = ("SS411", "it failed") if Process.status == "FAILED" else None
        now = life(Process.status, instance=f"instance-{len(Process.started)}", error=error)
        write_record(self.storage, record("totals", life=now))

    def failure(self):
        return Process.failed

    def stop(self):
        Process.started.append(["stopped"])


@pytest.fixture
def view(tmp_path, monkeypatch) -> KeptView:
    monkeypatch.setattr(views, "OwnProcess", Process)
    for name, value in (("status", "RUNNING"), ("failed", None), ("epochs", True), ("started", [])):
        monkeypatch.setattr(Process, name, value)
    return KeptView(tmp_path, "dbt.sales.totals", tmp_path / "views" / "jobs", {"sqlstream.views.dir": "/views"})


@pytest.fixture
def signals(view, monkeypatch) -> list[tuple[int, int]]:
    """The signals that are sent to the process that keeps the view, which ends at once."""
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        if number:
            sent.append((pid, number))
            write_record(storage_of(view), record("totals", life=life("STOPPED", process=GONE)))
        elif len(sent) >= len(Process.started):
            raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    return sent


def storage_of(view: KeptView) -> LocalStorage:
    return LocalStorage(view.checkpoint)


def text_of(view: KeptView, create: str = CREATE) -> str:
    return view.text(["CREATE CATALOG `dbt` WITH ('type' = 'file', 'path' = '/d')"], SETTINGS, create)


def test_the_script_has_settings_catalog_and_view(view):
    assert text_of(view) == (
        "SET 'sqlstream.views.dir' = '/warehouse/views';\n"
        "CREATE CATALOG `dbt` WITH ('type' = 'file', 'path' = '/d');\n" + CREATE + ";\n"
    )


def test_the_first_run_starts_a_process_that_serves_the_script(view):
    assert view.run(text_of(view), 30) == "RUNNING"
    server = ["--set", "sqlstream.views.dir=/views"]
    assert Process.started == [["-m", "sqlstream", "serve", str(view.script), "--no-page", *server]]
    assert view.script.read_text() == text_of(view)


def test_an_unchanged_model_leaves_it_alone(view):
    view.run(text_of(view), 30)
    assert view.run(text_of(view), 30) == "RUNNING, unchanged"
    assert len(Process.started) == 1


def test_a_changed_model_ends_the_process_and_starts_another_one(view, signals):
    view.run(text_of(view), 30)
    other = text_of(view, CREATE.replace("COUNT(*)", "MAX(v)"))
    assert view.is_changed(other) and not view.is_changed(text_of(view))
    assert view.run(other, 30) == "RUNNING, changed"
    assert signals == [(os.getpid(), signal.SIGTERM)], "one alone: a second one would end it within an epoch"
    assert len(Process.started) == 2 and view.script.read_text() == other


def test_one_whose_process_is_gone_starts_again(view):
    view.run(text_of(view), 30)
    write_record(storage_of(view), record("totals", life=life(process=GONE)))
    assert view.run(text_of(view), 30) == "RUNNING"


def test_a_view_whose_sources_had_ended_is_looked_at_again(view, signals):
    Process.status = "FINISHED"
    assert view.run(text_of(view), 30) == "FINISHED"
    assert view.run(text_of(view), 30) == "FINISHED"
    assert len(Process.started) == 2 and len(signals) == 1


@pytest.mark.parametrize(
    ("changes", "detail", "ends"),
    [
        ({"failed": "SS201: no column"}, "SS201: no column", False),
        ({"status": "FAILED"}, "SS411: it failed", True),
    ],
)
def test_what_fails_before_its_first_epoch_fails_the_model(view, changes, detail, ends):
    for name, value in changes.items():
        setattr(Process, name, value)
    with pytest.raises(ExecutionError) as error:
        view.run(text_of(view), 30)
    assert error.value.code == "SS479" and error.value.diagnostic.detail == detail
    assert (Process.started[-1] == ["stopped"]) is ends


def test_a_job_that_works_for_long_is_trusted(view):
    Process.epochs = False
    begin = time.monotonic()
    assert view.run(text_of(view), 0.3) == "RUNNING"
    assert time.monotonic() - begin > 0.3


def test_a_process_of_another_machine_is_not_ended(view):
    elsewhere = record("totals", life=life(process=ELSEWHERE))
    write_record(storage_of(view), elsewhere)
    with pytest.raises(ExecutionError, match=f"is kept by a process of {ELSEWHERE.host}"):
        view.stop()
    write_record(storage_of(view), replace(elsewhere, life=replace(elsewhere.life, status="STOPPED")))
    view.remove()


def test_a_view_that_is_dropped_leaves_no_script(view, signals):
    view.run(text_of(view), 30)
    view.remove()
    assert not view.script.exists() and len(signals) == 1
    stopped = read_record(storage_of(view))
    assert stopped is not None and not stopped.is_running


def test_a_database_has_the_views_whose_scripts_name_it(view):
    view.run(text_of(view), 30)
    assert names_in(view.folder, "`dbt`.`sales`") == ["dbt.sales.totals"]
    assert names_in(view.folder, "`dbt`.`sal`") == names_in(view.folder / "empty", "`dbt`.`sales`") == []


# --- processes ------------------------------------------------------------------------------------------------

_IDLE = "import time; time.sleep(600)"


def processes(mark: Path) -> int:
    """How many processes have the path among the words of their command, those that have ended and wait left out."""
    lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return sum(str(mark).encode() in line for line in lines)


def idle(view: KeptView) -> None:
    """Starts a process in place of one that serves the view."""
    OwnProcess([sys.executable, "-c", _IDLE, str(view.script)], view.name, str(view.checkpoint), "SELECT 1").start()
    while processes(view.script) < 2:  # it, and the one that waits for it
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads commands of processes as Linux shows them")
@pytest.mark.parametrize("status", [None, "FINISHED", "RUNNING"], ids=["no record", "finished", "of a gone process"])
def test_no_process_is_left_of_a_view_that_is_removed(tmp_path, status):
    view = KeptView(tmp_path, "dbt.sales.totals", tmp_path / "views" / "jobs")
    idle(view)
    if status is not None:
        write_record(storage_of(view), record("totals", life=life(status, process=GONE)))
    view.remove()
    assert processes(view.script) == 0
    view.remove()
