"""``sqlstream upgrade``: what of a checkpoint carries over, what is refused, and the exchange with its way back."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sqlstream.cli import run
from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.checkpoint import PLAN
from sqlstream.jobs.checkpoints.fingerprint import StateLayout, fingerprint, store_layout, to_text
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import read_record, write_record
from sqlstream.planner.physical import EngineSettings, physical_plan
from sqlstream.upgrade.comparison import Fate, compared, compared_parts
from sqlstream.upgrade.exchange import Exchange
from sqlstream.upgrade.planned import jobs_of
from sqlstream.upgrade.starting import ShellCommand
from sqlstream.workspace import Workspace
from tests.sqlstream.jobs.changed_plans import CHANGES, script
from tests.sqlstream.jobs.records.written import life, record

WINDOWS = "window aggregate"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("job.sql").write_text(text_of())
    stored("job.sql")
    return tmp_path


def text_of(change=None, settings="") -> str:
    definitions, insert = script("/data", change)
    return f"SET 'pipeline.name' = 'totals'; {settings}\n{definitions}\n{insert};\n"


def changed(name: str):
    return next(change for change in CHANGES if change.name == name)


def planned(path: str):
    workspace = Workspace()
    workspace.settings.set("execution.checkpointing.dir", "jobs")
    (job,) = jobs_of([Path(path).read_text()], workspace)
    return job


def stored(path: str) -> None:
    """The checkpoint that the job of a script would have after epoch 4, as far as is compared, and its record."""
    job = planned(path)
    parts = fingerprint(physical_plan(job.plan, EngineSettings("columnar", True)))
    job.storage.write(PLAN, to_text(parts))
    store_layout(job.storage, StateLayout("columnar", 64, True))
    conf = {"spark.sql.shuffle.partitions": "2"}
    job.storage.write("spark/offsets/4", "v1\n" + json.dumps({"conf": conf}) + "\n-")
    job.storage.write("spark/commits/4", "v1\n{}")
    job.storage.write("spark/metadata", "{}")
    write_record(job.storage, record("totals", life=life("STOPPED", started=0.0)))


def upgrade(*options: str) -> int:
    return run(["upgrade", "job.sql", "--dir", "jobs", *options])


# --- what carries over ---------------------------------------------------------------------------------------------


def test_a_filter_leaves_the_state_as_it_is(folder, capsys):
    Path("job.sql").write_text(text_of(changed("a filter below the windows")))
    assert upgrade("--dry-run") == 0
    assert (
        capsys.readouterr().out
        == """\
job "totals": STOPPED, epoch 4
  carries over  window aggregate
  carries over  watermark of table "bids"
  carries over  source "bids"
  the new query goes on with this state, behind what its sources have read
"""
    )


def test_other_keys_are_refused_with_what_differs_and_nothing_is_stopped(folder, capsys):
    Path("job.sql").write_text(text_of(changed("other keys")))
    assert upgrade() == 3
    out, err = capsys.readouterr()
    assert (
        out
        == """\
job "totals": STOPPED, epoch 4
  differs       window aggregate: the checkpoint has the window aggregate with the keys "k STRING", where the query \
has "k STRING, w INT"
  carries over  watermark of table "bids"
  carries over  source "bids"
  the new query cannot go on with this state: Spark restores a query's state as a whole or not at all
"""
    )
    assert (
        err
        == """\
SS421: checkpoint "jobs/totals" belongs to another query: window aggregate
DETAIL: It holds the window aggregate with the keys "k STRING", where the query has "k STRING, w INT".
HINT: Change the script, or give --discard-state: the new query begins without state, and its sources anew.
"""
    )
    assert not Path("savepoints").exists() and not Path("jobs/savepoints").exists()


def test_operators_and_sources_that_come_and_go_are_listed(folder, capsys):
    Path("job.sql").write_text(text_of(changed("an operator less")))
    assert upgrade("--dry-run", "--discard-state") == 0
    assert "  gone          a window aggregate (window TUMBLE size 10 s)\n" in capsys.readouterr().out
    Path("job.sql").write_text(text_of(changed("another table")))
    assert upgrade("--dry-run", "--discard-state") == 0
    out = capsys.readouterr().out
    assert '  gone          the source "bids"\n' in out and '  new           the source "offers"\n' in out


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_the_list_has_a_difference_exactly_where_the_job_would_refuse_the_state(folder, change):
    before = physical_plan(planned("job.sql").plan, EngineSettings("columnar", True))
    Path("job.sql").write_text(text_of(change))
    comparison = compared(planned("job.sql"))
    assert (comparison.refusal is not None) == bool(change.refused)
    assert any(part.fate is not Fate.CARRIES_OVER for part in comparison.parts) == bool(change.refused)
    same = list(compared_parts(fingerprint(before), fingerprint(before)))
    assert all(part.fate is Fate.CARRIES_OVER for part in same) and len(same) == 3


def test_a_job_without_a_checkpoint_begins(folder, capsys):
    Path("job.sql").write_text(text_of().replace("'totals';", "'other';"))
    assert upgrade("--dry-run") == 0
    assert capsys.readouterr().out == 'job "other": it has no checkpoint yet\n  the new query begins\n'


def test_settings_that_the_checkpoint_has_fixed_are_compared_too(folder, capsys):
    Path("job.sql").write_text(text_of(settings="SET 'pipeline.max-parallelism' = '32';"))
    assert upgrade("--dry-run") == 3
    assert 'SS425: checkpoint "jobs/totals" has its state in 64 key groups, not in 32' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        ("SELECT 1 FROM nowhere", (), 1, 'job.sql: SS202: table or view "nowhere" does not exist'),
        ("SELECT k FROM (VALUES ('a')) AS t (k)", (), 1, "SS490: only INSERT and EXECUTE STATEMENT SET are upgraded"),
        ("SET 'pipeline.name' = 'a'", (), 2, "Error: the scripts have no INSERT and no statement set to upgrade"),
        (None, ("--back-with", "true"), 2, "Error: --back-with goes with --start-with"),
        (None, ("--previous", "-"), 2, "Error: an upgrade is made of files, not of standard input"),
        (None, ("--previous", "old.sql"), 2, "Error: --previous is not what the job runs: checkpoint"),
        (None, ("--previous", "lone.sql"), 2, 'Error: --previous starts the job "lone", which the new scripts lack'),
    ],
)  # fmt: skip
def test_what_would_fail_later_is_refused_first(folder, capsys, text, options, code, message):
    Path("old.sql").write_text(text_of(changed("other keys")))
    Path("lone.sql").write_text(text_of().replace("'totals';", "'lone';"))
    if text is not None:
        Path("job.sql").write_text(text)
    assert upgrade(*options) == code
    assert message in capsys.readouterr().err


def test_a_script_must_say_where_its_checkpoint_is(folder, capsys):
    assert run(["upgrade", "job.sql", "--dry-run"]) == 1
    err = capsys.readouterr().err
    assert "SS490: the script does not say where its job keeps its checkpoint\nLINE " in err
    assert "HINT: Give --dir DIR, or SET 'execution.checkpointing.dir' in the script, as where the job runs." in err


def test_a_directory_that_does_not_exist_has_no_jobs_to_upgrade(folder, capsys):
    """A misspelt one would start the jobs once more, beside those that run."""
    assert run(["upgrade", "job.sql", "--dir", "jbos", "--dry-run"]) == 2
    assert 'jbos" does not exist: no job is there; sqlstream run starts one' in capsys.readouterr().err
    assert not Path("jbos").exists()


# --- the exchange --------------------------------------------------------------------------------------------------


@dataclass
class Scripted:
    """A starter that plays a job: it writes the record of a start, then the commits of epochs, or of its failure."""

    storage: LocalStorage
    epochs: tuple[int, ...] = ()
    error: tuple[str, str] | None = None
    exit_reason: str | None = None
    name: str = "new"
    log: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.log.append(f"start {self.name}")
        for epoch in self.epochs:
            self.storage.write(f"spark/commits/{epoch}", "v1\n{}")
        if self.exit_reason is None:
            now = life("RUNNING" if self.error is None else "FAILED", started=time.time(), error=self.error)
            write_record(self.storage, record("totals", life=now))

    def failure(self) -> str | None:
        return self.exit_reason

    def stop(self) -> None:
        self.log.append(f"stop {self.name}")
        stopped = read_record(self.storage)
        if stopped is not None:
            write_record(self.storage, replace(stopped, life=replace(stopped.life, status="STOPPED")))


def exchange(new, previous=None, epochs=2, patience=1.0):
    comparison = compared(planned("job.sql"))
    told: list[str] = []
    made = Exchange([comparison], new, previous, epochs, patience, 1.0, told.append)
    return made, told


def savepoint_in(told: list[str]) -> Path:
    found = re.fullmatch(r'job "totals" stopped, savepoint: (.+)', told[0])
    assert found is not None, told
    return Path(found[1])


def test_a_job_that_completes_its_epochs_is_trusted(folder):
    made, told = exchange(Scripted(LocalStorage(folder / "jobs/totals"), (5, 6)))
    made.carry_out()
    assert told[1:] == ['job "totals" is RUNNING with 2 more epochs']
    assert json.loads((savepoint_in(told) / "savepoint.json").read_text())["epoch"] == 4


def test_a_job_without_rows_is_trusted_when_it_has_worked_long_enough(folder):
    made, told = exchange(Scripted(LocalStorage(folder / "jobs/totals")), patience=0.2)
    made.carry_out()
    assert told[-1] == 'job "totals" is RUNNING with 0 more epochs'


def test_patience_begins_when_the_job_has_started(folder):
    """A start takes longer on a busy machine."""

    class Slow(Scripted):
        def start(self) -> None:
            threading.Timer(0.6, super().start).start()

    made, told = exchange(Slow(LocalStorage(folder / "jobs/totals")), patience=0.2)
    made.carry_out()
    assert told[-1] == 'job "totals" is RUNNING with 0 more epochs'


def test_a_job_that_fails_gives_way_to_the_former_one_in_the_same_checkpoint(folder):
    storage, log = LocalStorage(folder / "jobs/totals"), list[str]()
    new = Scripted(storage, (5,), ("SS411", "divide has raised ZeroDivisionError"), log=log)
    made, told = exchange(new, Scripted(storage, name="former", log=log))
    with pytest.raises(ExecutionError) as raised:
        made.carry_out()
    assert log == ["start new", "stop new", "start former"]
    assert told[-1] == 'job "totals" is RUNNING with 0 more epochs'
    assert str(raised.value) == (
        'SS479: the upgrade of "totals" has failed\n'
        'DETAIL: job "totals" has failed: SS411: divide has raised ZeroDivisionError\n'
        "HINT: The former scripts run again, behind the last complete epoch. "
        f"Savepoints: {savepoint_in(told)}."
    )
    assert (folder / "jobs/totals/spark/commits/5").exists()  # it has been written, and is not written again


def test_without_the_former_scripts_the_message_says_that_nothing_runs(folder):
    made, told = exchange(Scripted(LocalStorage(folder / "jobs/totals"), exit_reason="SS541: no such option"))
    with pytest.raises(ExecutionError) as raised:
        made.carry_out()
    assert raised.value.diagnostic.hint == (
        "Nothing runs now. Start the former scripts: they go on behind the last complete epoch. "
        f"Savepoints: {savepoint_in(told)}."
    )


def test_a_job_that_never_starts_has_failed(folder):
    class Idle(Scripted):
        def start(self) -> None:
            pass

    made, _ = exchange(Idle(LocalStorage(folder / "jobs/totals")), patience=0.2)
    with pytest.raises(ExecutionError, match=r'job "totals" has not started within 1 seconds'):
        made.carry_out()


def test_a_checkpoint_whose_state_is_discarded_is_set_aside_and_given_back_on_failure(folder):
    Path("job.sql").write_text(text_of(changed("other keys")))
    storage = LocalStorage(folder / "jobs/totals")
    plan = storage.read(PLAN)

    @dataclass
    class Anew(Scripted):
        def start(self) -> None:
            assert self.storage.read(PLAN) is None
            self.storage.write(PLAN, "another plan")
            super().start()

    former = Scripted(storage)
    made, _ = exchange(Anew(storage, (0,), ("SS400", "it failed")), former)
    with pytest.raises(ExecutionError, match="SS479"):
        made.carry_out()
    assert storage.read(PLAN) == plan and list((folder / "jobs/superseded").iterdir()) == []
    former.stop()
    made, _ = exchange(Anew(storage, (0, 1)))
    made.carry_out()
    (aside,) = (folder / "jobs/superseded").iterdir()
    assert LocalStorage(aside).read(PLAN) == plan and storage.read(PLAN) == "another plan"


def test_a_command_that_fails_is_a_failed_upgrade():
    ShellCommand("true").start()
    with pytest.raises(ExecutionError) as raised:
        ShellCommand("echo no such unit >&2; exit 5").start()
    assert str(raised.value) == (
        'SS479: "echo no such unit >&2; exit 5" has ended with exit status 5\nDETAIL: no such unit'
    )
