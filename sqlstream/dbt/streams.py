"""Streaming tables: models whose rows a job writes that goes on when dbt has ended.

Each has a script in the warehouse, which a process of its own runs. A changed model is an upgrade of that job: its
state carries over where the planner allows, and the former script comes back where the first epochs fail.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.jobs.records.record import read_record
from sqlstream.jobs.records.requests import RecordedJob, storage_here
from sqlstream.secrets import shown_script
from sqlstream.upgrade.comparison import Comparison, compared, comparison_text
from sqlstream.upgrade.exchange import Exchange
from sqlstream.upgrade.planned import jobs_of
from sqlstream.upgrade.starting import OwnProcess
from sqlstream.workspace import Workspace

STATE_LOST = "SS497"
SCRIPTS, _CHECKPOINTS = "jobs", "checkpoints"
_ANSWER_SECONDS = 600.0


@dataclass(frozen=True)
class Stream:
    """The job of a streaming table. ``folder``: that of the warehouse. ``name``: of the job, and of its script."""

    folder: Path
    name: str

    @property
    def script(self) -> Path:
        """The script that its process runs."""
        return self.folder / SCRIPTS / f"{self.name}.sql"

    @property
    def former(self) -> Path:
        """The script of the model as it was before."""
        return self.folder / SCRIPTS / f"{self.name}.former.sql"

    @property
    def checkpoint(self) -> Path:
        """The folder of the job."""
        return self.folder / _CHECKPOINTS / self.name

    def text(self, definitions: Sequence[str], settings: Mapping[str, str], insert: str) -> str:
        """The script: settings, catalogs and the INSERT."""
        own = {"execution.checkpointing.dir": str(self.folder / _CHECKPOINTS), "pipeline.name": self.name}
        return script_text({**settings, **own}, (*definitions, insert))

    def run(self, text: str, epochs: int, patience_s: float) -> str:
        """Makes the process run this script, with the state of the job that runs now, and returns what was done.

        Raises ExecutionError SS497 where the state does not carry over, SS479 where the new job failed.
        """
        (job,) = jobs_of([text], Workspace())
        comparison = compared(job)
        if comparison.refusal is not None:
            raise _refused(comparison)
        unchanged = self.script.is_file() and self.script.read_text(encoding="utf-8") == text
        if unchanged and comparison.is_running:
            return "RUNNING, unchanged"
        if not unchanged:
            self._write(text)
        lines: list[str] = []
        former = self._process(self.former) if not unchanged and self.former.is_file() else None
        exchange = Exchange([comparison], self._process(self.script), former, epochs, patience_s, _ANSWER_SECONDS,
                            lines.append)  # fmt: skip
        try:
            exchange.carry_out()
        except SqlStreamError:
            if former is not None:
                shutil.copyfile(self.former, self.script)  # the model is as it was
            raise
        return lines[-1].partition(" is ")[2] if lines else "STARTED"

    def remove(self) -> None:
        """Stop the job, and remove its checkpoint and its scripts."""
        storage = storage_here(str(self.checkpoint))
        record = read_record(storage)
        if record is not None and record.is_running:
            with suppress(SqlStreamError):  # it may have ended meanwhile
                RecordedJob(record, storage).stop(timeout_s=_ANSWER_SECONDS)
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        for script in (self.script, self.former):
            script.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        self.script.parent.mkdir(parents=True, exist_ok=True)
        if self.script.is_file():
            shutil.copyfile(self.script, self.former)
        self.script.write_text(text, encoding="utf-8")

    def _process(self, script: Path) -> OwnProcess:
        command = [sys.executable, "-m", "sqlstream", "run", str(script), "--no-progress", "--savepoint-on-term"]
        shown = shown_script(script.read_text(encoding="utf-8"))
        return OwnProcess(command, self.name, str(self.checkpoint), shown)


def stream_of(folder: Path, schema: str, identifier: str) -> Stream:
    """The stream of a relation."""
    return Stream(folder, f"{schema}__{identifier}".replace(os.sep, "_"))


def script_text(settings: Mapping[str, str], statements: Sequence[str]) -> str:
    """A script that sets these and then executes the statements."""
    sets = [f"SET {quote_string(k)} = {quote_string(str(v))}" for k, v in settings.items()]
    return "".join(f"{statement};\n" for statement in (*sets, *statements))


def table_text(relation: str, columns: Sequence[tuple[str, str]], key: Sequence[str], options: str) -> str:
    """CREATE TABLE for the rows of a stream."""
    written = [f"{quote_name(name)} {type_}" for name, type_ in columns]
    if key:
        written.append(f"PRIMARY KEY ({', '.join(map(quote_name, key))}) NOT ENFORCED")
    return f"CREATE TABLE IF NOT EXISTS {relation} ({', '.join(written)}) {options}"


def _refused(comparison: Comparison) -> ExecutionError:
    assert comparison.refusal is not None
    message = f'the state of the streaming table "{comparison.job.name}" does not carry over to the changed model'
    hint = "dbt run --full-refresh --select MODEL begins it anew, with an empty table."
    return ExecutionError(STATE_LOST, message, detail=comparison_text(comparison), hint=hint)
