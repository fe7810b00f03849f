"""The process that is struck: a job of each kind, all in one JVM.

``python -m tests.faults.driver FOLDER MASTER KIND...``. On standard input, a line "start {"name":"value"} KIND..."
starts the jobs of these kinds that do not run, with these settings, which are JSON without spaces; "drain {} KIND..."
ends the input of those that run. What becomes of them is told on standard output, a line of JSON each: ``kind``,
``state`` (running, restarting, failed, finished) and the ``message`` of a failure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.session import Session, connect
from sqlstream.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.1
_SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m"
_SPARK = {
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
    "spark.sql.shuffle.partitions": "2",
}


class Jobs:
    """The jobs of one process, each in a session of its own. ``tell`` gets kind, state and message."""

    def __init__(self, spark: SparkSession, folder: Path, kinds: Sequence[str], tell: Callable[..., None]) -> None:
        self._spark = spark
        self._folder = folder
        self._tell = tell
        self._idle = [*kinds]
        self._sessions: dict[str, Session] = {}
        self._running: dict[str, Job] = {}
        self._failures: dict[str, SqlStreamError] = {}

    def start(self, settings: Mapping[str, str], kinds: Sequence[str]) -> None:
        """Those of the kinds that do not run, in this order."""
        for kind in [kind for kind in kinds if kind in self._idle]:
            self._idle.remove(kind)
            if kind in self._sessions:
                with suppress(Exception):  # Spark may be gone
                    self._sessions.pop(kind).close()
            try:
                self._start(kind, settings)
            except Exception as error:
                self._failed(kind, error)

    def _start(self, kind: str, settings: Mapping[str, str]) -> None:
        checkpoints = self._folder / "checkpoints" / kind
        options = {
            "execution.checkpointing.dir": str(checkpoints),
            "execution.end-of-input": "final",
            **settings,
        }
        session = self._sessions[kind] = connect(self._spark, **options)
        job = session.sql((self._folder / kind / "job.sql").read_text())
        assert isinstance(job, Job)
        self._running[kind] = job
        self._tell(kind, "running")

    def drain(self, kinds: Sequence[str]) -> None:
        """Jobs whose input has no end read what there is; one that fails meanwhile is seen at the next look."""
        for kind in [kind for kind in kinds if kind in self._running]:
            Thread(target=_drained, args=(self._running[kind],), daemon=True).start()

    def look(self) -> None:
        """Tell what has happened since the last look."""
        for kind, job in list(self._running.items()):
            failure = job.last_failure
            try:
                ended = job.wait(0)
            except Exception as error:
                del self._running[kind]
                self._failed(kind, error)
                continue
            if ended:
                del self._running[kind]
                self._tell(kind, "finished")
            elif failure is not None and failure is not self._failures.get(kind):
                self._failures[kind] = failure
                self._tell(kind, "restarting", str(failure))

    def _failed(self, kind: str, error: Exception) -> None:
        self._idle.append(kind)
        known = isinstance(error, SqlStreamError)
        self._tell(kind, "failed", str(error) if known else f"{type(error).__name__}: {error}")


def _drained(job: Job) -> None:
    with suppress(Exception):
        job.stop(drain=True)


def _listen(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)


def main(folder: str, master: str, *kinds: str) -> None:
    def tell(kind: str, state: str, message: str = "") -> None:
        print(json.dumps({"kind": kind, "state": state, "message": message}), flush=True)

    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_listen, args=(lines,), daemon=True).start()
    jobs = Jobs(spark_session(_SPARK, master), Path(folder), kinds, tell)
    while True:
        with suppress(Empty):
            command, settings, *wanted = lines.get(timeout=_LOOK_SECONDS).split()
            if command == "start":
                jobs.start(json.loads(settings), wanted)
            else:
                jobs.drain(wanted)
        jobs.look()


if __name__ == "__main__":
    main(*sys.argv[1:])
