"""Sinks that are full, read-only or gone while a job writes to them: what the job says, and whether all rows are there.

``python -m tests.faults.sinks``, and the last part of ``make test-faults``. Each case is a small job over files that
come one by one. The fault strikes after some of them; when the job has failed, or has read more, the sink is healed:
there is room again, it can be written, or what was gone is put back beside what has been written since. Then the job is
started once more, and reads one file more. In the end each row must be there once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job, JobState
from sqlstream.session import Session
from sqlstream.udfs.files.sink_log import LOG
from tests.faults.compare import committed
from tests.faults.disk import Disk, disk_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_SECONDS = 120.0
_BEFORE, _STRUCK, _AFTER = 3, 3, 1
_NO_CODE = "SS400"

SINKS: Mapping[str, str] = {
    "log": "INSERT INTO o SELECT id FROM s",
    "folders": "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT id FROM s; END",
}
"""Statements by what says which files count: the log of Spark's file sink, or a folder per micro-batch."""


class Struck:
    """``disk`` holds the directory ``out`` of the sink; what is taken away is kept beside it."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.out = disk.folder / "out"
        self.kept = disk.folder / "kept"

    def put_back(self) -> None:
        """What was taken away, among what has been written since."""
        for path in [*self.kept.rglob("*")]:
            target = self.out / path.relative_to(self.kept)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)


def _remount(struck: Struck, how: str) -> None:
    """A file that is just being written keeps a file system from becoming read-only."""
    command = ["mount", "-o", f"remount,{how}", str(struck.disk.folder)]
    end = time.monotonic() + _TIMEOUT_SECONDS
    while subprocess.run(command, capture_output=True).returncode:
        if time.monotonic() > end:
            raise SystemExit(f"{struck.disk.folder} cannot be mounted {how}")
        time.sleep(0.05)


def _take_log(struck: Struck) -> None:
    struck.kept.mkdir()
    (struck.out / LOG).rename(struck.kept / LOG)


def _take_folder(struck: Struck) -> None:
    struck.out.rename(struck.kept)


def _put_a_file_there(struck: Struck) -> None:
    _take_folder(struck)
    while True:  # the job may make the directory anew at this very moment
        try:
            struck.out.touch(exist_ok=False)
        except FileExistsError:
            shutil.rmtree(struck.out)
        else:
            return


def _take_the_file_away(struck: Struck) -> None:
    struck.out.unlink()
    struck.put_back()


@dataclass(frozen=True)
class Fault:
    """``sinks``: those that have what it takes away. ``mounts``: it needs a disk of its own."""

    strike: Callable[[Struck], None]
    heal: Callable[[Struck], None] = Struck.put_back
    sinks: tuple[str, ...] = tuple(SINKS)
    mounts: bool = False


FAULTS: Mapping[str, Fault] = {
    "full": Fault(lambda s: s.disk.fill(os.getpid(), 0), lambda s: s.disk.free(), mounts=True),
    "read-only": Fault(lambda s: _remount(s, "ro"), lambda s: _remount(s, "rw"), mounts=True),
    "log gone": Fault(_take_log, sinks=("log",)),
    "folder gone": Fault(_take_folder),
    "file in its place": Fault(_put_a_file_there, _take_the_file_away),
}


@dataclass(frozen=True)
class Outcome:
    """``said``: what the job has failed with; None where it has gone on. ``wrong``: rows that are lost or twice, or why
    the job has not come back."""

    sink: str
    fault: str
    tried: bool = True
    said: str | None = None
    wrong: str | None = None

    @property
    def holds(self) -> bool:
        return self.wrong is None and not (self.said or "").startswith(_NO_CODE)


class _Case:
    """A job of one sink in a folder of its own."""

    def __init__(self, spark: SparkSession, sink: str, folder: Path, struck: Struck) -> None:
        self._spark = spark
        self._sink = sink
        self._folder = folder
        self._struck = struck
        self._files = 0
        (folder / "in").mkdir()

    def put(self, count: int) -> None:
        for _ in range(count):
            hidden = self._folder / "in" / f".{self._files}"
            hidden.write_text(json.dumps({"id": self._files}))
            hidden.rename(hidden.with_name(f"{self._files:02}.json"))
            self._files += 1

    @contextmanager
    def running(self) -> Iterator[Job]:
        script = f"""
            SET 'execution.checkpointing.dir' = '{self._folder}/checkpoints';
            SET 'pipeline.name' = 'j';
            CREATE TABLE s (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{self._folder}/in',
                'format' = 'json', 'source.monitor-interval' = '100 ms', 'source.max-files-per-trigger' = '1');
            CREATE TABLE o (id BIGINT)
                WITH ('connector' = 'filesystem', 'path' = '{self._struck.out}', 'format' = 'parquet');
            {SINKS[self._sink]};"""
        with Session(self._spark) as session:
            job = session.sql(script)
            assert isinstance(job, Job)
            yield job

    def read_by(self, job: Job, rows: int) -> bool:
        """Whether the job has read so many rows since its start; False where it has failed before."""
        end = time.monotonic() + _TIMEOUT_SECONDS
        while job.state is JobState.RUNNING and time.monotonic() < end:
            if job.progress().rows_in >= rows:
                return True
            time.sleep(0.1)
        return False

    def difference(self) -> str | None:
        """Between the rows that were put and those that a reader of the table sees."""
        rows = committed(self._struck.out)
        emitted_rows = rows["id"].to_pylist() if rows.num_rows else []
        lost, twice = {*range(self._files)} - {*emitted_rows}, len(emitted_rows) - len({*emitted_rows})
        parts = [f"{len(lost)} lost"] * bool(lost) + [f"{twice} twice"] * bool(twice)
        return ", ".join(parts) or None


def struck_by(spark: SparkSession, sink: str, name: str, folder: Path) -> Outcome:
    """What comes of a sink and a fault."""
    fault = FAULTS[name]
    (folder / "disk").mkdir(parents=True)
    with disk_at(folder / "disk") as disk:
        if fault.mounts and not disk.mounted:
            return Outcome(sink, name, tried=False)
        struck = Struck(disk)
        case = _Case(spark, sink, folder, struck)
        case.put(_BEFORE)
        with case.running() as job:
            if not case.read_by(job, _BEFORE):
                return Outcome(sink, name, wrong=f"has not begun: {job.exception}")
            fault.strike(struck)
            case.put(_STRUCK)
            case.read_by(job, _BEFORE + _STRUCK)
            said = _ended(job)
        fault.heal(struck)
        case.put(_AFTER)
        return Outcome(sink, name, said=said, wrong=_comes_back(case) or case.difference())


def _ended(job: Job) -> str | None:
    """What a job has failed with, which looks for its sink once a second; None where it has gone on."""
    try:
        job.wait(3)
    except SqlStreamError as error:
        return str(error)
    except Exception as error:
        return f"{_NO_CODE}: {type(error).__name__}: {error}"
    return None


def _comes_back(case: _Case) -> str | None:
    """Why a job has not come back; None where it has."""
    try:
        with case.running() as job:
            case.read_by(job, 1)
            end = time.monotonic() + _TIMEOUT_SECONDS
            while case.difference() is not None and job.state is JobState.RUNNING and time.monotonic() < end:
                time.sleep(0.2)
            return None if job.exception is None else f"does not come back: {job.exception}"
    except SqlStreamError as error:
        return f"does not come back: {error}"


def table_of(outcomes: list[Outcome]) -> Table:
    title = "Sinks that are full, read-only or gone, and what came of each; rows: after the sink was healed"
    table = Table("sink", "fault", "the job", "rows", title=title, title_justify="left")
    for item in outcomes:
        said = "goes on" if item.said is None else re.sub(r"\"/[^\"]*/", '"…/', item.said.partition("\n")[0])
        table.add_row(item.sink, item.fault, said if item.tried else "not tried: no mounting", _verdict(item))
    return table


def _verdict(actual: Outcome) -> str:
    if not actual.tried:
        return "-"
    if actual.wrong is not None:
        return actual.wrong.partition("\n")[0]
    return "equal" if actual.holds else "UNCLEAR"


def sinks_hold(folder: Path, spark: SparkSession | None = None) -> bool:
    """Try all, print the table, and say whether all holds."""
    from sqlstream.testing.spark import local_spark

    session = spark or local_spark()
    cases = [(sink, name) for name, fault in FAULTS.items() for sink in fault.sinks]
    actual = [struck_by(session, sink, name, folder / f"{sink} {name}".replace(" ", "-")) for sink, name in cases]
    Console(width=160, highlight=False).print(table_of(actual))
    return all(outcome.holds for outcome in actual)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sqlstream-sinks-") as folder:
        return 0 if sinks_hold(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
