"""Materialized views of dbt: views that a process of ``sqlstream serve`` keeps, which goes on when dbt has ended.

Each has a script in the warehouse. An unchanged model leaves its process alone; a changed one begins the view anew,
because its table would else hold rows of two definitions.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlstream.dbt.streams import SCRIPTS, script_text
from sqlstream.errors import ExecutionError
from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.records.record import JobRecord, Process, read_record
from sqlstream.jobs.records.requests import storage_here
from sqlstream.jobs.records.submissions import submissions
from sqlstream.secrets import shown_script
from sqlstream.upgrade.exchange import FAILED
from sqlstream.upgrade.starting import OwnProcess

VIEWS = "views"
"""The folder of a warehouse for the embedded PostgreSQL server and the checkpoints of views."""

_END_SECONDS = 120.0
_LOOK_SECONDS = 0.2


_SUFFIX = ".view.sql"


@dataclass(frozen=True)
class KeptView:
    """A materialized view and its process. ``folder``: that of the warehouse. ``name``: the full name of the view,
    which its job has, too. ``jobs``: the folder with the checkpoints of views. ``server``: settings that say where the
    rows of views are, which the process must know before it reads its script.
    """

    folder: Path
    name: str
    jobs: Path
    server: Mapping[str, str] = field(default_factory=dict)

    @property
    def script(self) -> Path:
        """The script that the process serves."""
        return self.folder / SCRIPTS / f"{self.name.replace(os.sep, '_')}{_SUFFIX}"

    @property
    def checkpoint(self) -> Path:
        """The folder of the job."""
        return self.jobs / self.name

    def text(self, definitions: Sequence[str], settings: Mapping[str, str], create: str) -> str:
        """The script: settings, catalogs and CREATE OR REPLACE MATERIALIZED VIEW."""
        return script_text(settings, (*definitions, create))

    def is_changed(self, text: str) -> bool:
        """Whether there is another script for the view already."""
        return self.script.is_file() and self.script.read_text(encoding="utf-8") != text

    def run(self, text: str, patience_s: float) -> str:
        """Makes a process keep the view, and returns what was done. ``patience_s``: how long to wait for its first
        epoch; a job that works that long is trusted.

        Raises ExecutionError SS479 where the process ends, or its job fails, before that.
        """
        before = self._record()
        changed = self.is_changed(text)
        if before is not None and before.is_running and not changed and self.script.is_file():
            return "RUNNING, unchanged"
        self.stop()
        self.script.parent.mkdir(parents=True, exist_ok=True)
        self.script.write_text(text, encoding="utf-8")
        server = [word for key, value in self.server.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "sqlstream", "serve", str(self.script), "--no-page", *server]
        process = OwnProcess(command, self.name, str(self.checkpoint), shown_script(text))
        process.start()
        record = self._begun(process, before, patience_s)
        return f"{record.status}{', changed' if changed else ''}"

    def _begun(self, process: OwnProcess, before: JobRecord | None, patience_s: float) -> JobRecord:
        """The record of the new start, after its first epoch or its end."""
        end = time.monotonic() + patience_s
        while True:
            record = self._record()
            failure = process.failure()
            if failure is not None:
                raise self._failed(failure, process)
            if record is not None and (before is None or record.life.instance != before.life.instance):
                if record.status == "FAILED" and record.error is not None:
                    process.stop()
                    raise self._failed(": ".join(record.error), process)
                has_epoch = last_committed(storage_here(str(self.checkpoint))) is not None
                if has_epoch or not record.is_running or time.monotonic() > end:
                    return record
            elif time.monotonic() > end:
                process.stop()
                raise self._failed(f"It does not run after {patience_s:g} s.", process)
            time.sleep(_LOOK_SECONDS)

    def _failed(self, detail: str, process: OwnProcess) -> ExecutionError:
        hint = f'All that its process has said is in "{process.log}".'
        return ExecutionError(FAILED, f'the materialized view "{self.name}" is not kept', detail=detail, hint=hint)

    def stop(self) -> None:
        """Ends the process that keeps the view after its last whole epoch; it would start a job again that is stopped.
        It is found where its job has no record any more, too, as after DROP DATABASE … CASCADE.

        Raises ExecutionError SS479 where it is one of another machine, or does not end.
        """
        record = self._record()
        process = None if record is None else record.life.process
        if record is not None and record.is_running and not record.life.process.is_here:
            message = f'the materialized view "{self.name}" is kept by a process of {record.life.process.host}'
            raise ExecutionError(FAILED, message, hint="Run dbt there, or end that process first.")
        if process is not None and process.is_here and process.is_alive:
            end = os.kill
        else:  # its session, of which the process that the submission knows is the first one, and waits for the others
            process, end = self._submitted(), os.killpg
        if process is None:
            return
        with suppress(ProcessLookupError):
            end(process.pid, signal.SIGTERM)  # once: a second one ends it within an epoch
        if not process.ends_within(_END_SECONDS):
            message = f'process {process.pid}, which keeps the materialized view "{self.name}", does not end'
            raise ExecutionError(FAILED, message, hint="See its log: sqlstream jobs list.")

    def remove(self) -> None:
        """End the process, and remove the script; the table and the checkpoint go with DROP MATERIALIZED VIEW."""
        self.stop()
        self.script.unlink(missing_ok=True)

    def _submitted(self) -> Process | None:
        """The process that was started last for the view, if it has not ended."""
        own = (each for each in submissions() if each.checkpoint == str(self.checkpoint) and not each.is_over)
        return next((each.process for each in own if each.process.is_here), None)

    def _record(self) -> JobRecord | None:
        return read_record(storage_here(str(self.checkpoint)))


def names_in(folder: Path, space: str) -> list[str]:
    """The names of the views whose scripts are in a warehouse, of those in a database of a catalog. ``space``: both, in
    backticks.
    """
    scripts = sorted((folder / SCRIPTS).glob(f"*{_SUFFIX}"))
    return [path.name.removesuffix(_SUFFIX) for path in scripts if f"VIEW {space}." in path.read_text(encoding="utf-8")]
