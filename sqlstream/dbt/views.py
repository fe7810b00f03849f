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
from sqlstream.jobs.records.record import JobRecord, read_record
from sqlstream.jobs.records.requests import storage_here
from sqlstream.secrets import shown_script
from sqlstream.upgrade.exchange import FAILED
from sqlstream.upgrade.starting import OwnProcess

VIEWS = "views"
"""The folder of a warehouse for the embedded PostgreSQL server and the checkpoints of views."""

_END_SECONDS = 120.0
_LOOK_SECONDS = 0.2


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
        return self.folder / SCRIPTS / f"{self.name.replace(os.sep, '_')}.view.sql"

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
        Raises ExecutionError SS479 where it is one of another machine, or does not end.
        """
        record = self._record()
        if record is None or record.is_lost or (record.life.process.is_here and not record.life.process.is_alive):
            return
        process = record.life.process
        if not process.is_here and not record.is_running:
            return
        if not process.is_here:
            message = f'the materialized view "{self.name}" is kept by a process of {process.host}'
            raise ExecutionError(FAILED, message, hint="Run dbt there, or end that process first.")
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)  # once: a second one ends it within an epoch
        if not process.ends_within(_END_SECONDS):
            message = f'process {process.pid}, which keeps the materialized view "{self.name}", does not end'
            raise ExecutionError(FAILED, message, hint="See its log: sqlstream jobs list.")

    def remove(self) -> None:
        """End the process, and remove the script; the table and the checkpoint go with DROP MATERIALIZED VIEW."""
        self.stop()
        self.script.unlink(missing_ok=True)

    def _record(self) -> JobRecord | None:
        return read_record(storage_here(str(self.checkpoint)))
