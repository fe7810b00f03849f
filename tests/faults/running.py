"""The jobs of all kinds, which run in one process at a time, and what is known of them from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO

import pyarrow as pa

from tests.faults.compare import committed
from tests.faults.events import write_as
from tests.faults.jobs import FUNCTIONS, KINDS, MODULE
from tests.faults.processes import kill_all

TIMEOUT_SECONDS = 900.0
_ROOT = Path(__file__).parents[2]


class Hangs(Exception):
    """Jobs that neither end nor get on."""


@dataclass(frozen=True)
class Told:
    """What a process has said of a job: ``state`` is running, restarting, failed or finished."""

    kind: str
    state: str
    message: str


@dataclass
class Fleet:
    """``events`` has all files of the input, of which jobs see those that have been handed out. ``starts`` counts the
    processes, of which ``process`` is the newest."""

    kinds: Sequence[str]
    events: Path
    folder: Path
    master: str = "local[4]"
    process: subprocess.Popen[str] | None = None
    starts: int = 0
    _told: SimpleQueue[Told] = field(default_factory=SimpleQueue)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def log(self) -> Path:
        """What the newest process has written beside what it has told."""
        return self.folder / f"{self.starts}.log"

    def epoch(self, kind: str) -> int:
        """The newest complete epoch of a job; -1 before the first."""
        commits = self.checkpoints.glob(f"{kind}/*/spark/commits/[0-9]*")
        return max((int(path.name) for path in commits), default=-1)

    def prepare(self) -> None:
        self.checkpoints.mkdir(parents=True)
        for form in self._forms:
            self._input(form).mkdir()
        (self.folder / f"{MODULE}.py").write_text(FUNCTIONS)
        for kind in self.kinds:
            (self.folder / kind).mkdir()

    @property
    def _forms(self) -> set[str]:
        """The formats in which the jobs read the events."""
        return {KINDS[kind].reads for kind in self.kinds} | {"parquet"}

    def _input(self, form: str) -> Path:
        return self.folder / ("events" if form == "parquet" else f"events-{form}")

    def hand_out(self, share: float) -> None:
        """Give jobs that are started from now on a share of the input. With less than all of it they do not end, and
        those that run see it, too."""
        files = sorted(self.events.glob("*.parquet"))
        for file in files[: round(len(files) * share)]:
            with suppress(FileExistsError):
                os.link(file, self.folder / "events" / file.name)
            for form in self._forms - {"parquet"}:
                target = self._input(form) / f"{file.stem}.{form}"
                if not target.exists():
                    write_as(form, file, target)
        for kind in self.kinds:
            script = KINDS[kind].script(self._input(KINDS[kind].reads), self.folder / kind / "out", watches=share < 1)
            (self.folder / kind / "job.sql").write_text(script)

    def environment(self) -> Mapping[str, str]:
        known = (str(self.folder), str(_ROOT), os.environ.get("PYTHONPATH", ""))
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))}

    @property
    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "tests.faults.driver", str(self.folder), self.master, *self.kinds]

    def start(self) -> None:
        """A new process, once the one before it has ended; what that still says is not heard."""
        self.kill()
        self.starts += 1
        self._told = SimpleQueue()
        pipe = subprocess.PIPE
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment(), stdin=pipe, stdout=pipe, stderr=log, text=True
            )
        assert self.process.stdout is not None
        Thread(target=_read, args=(self.process.stdout, self._told), daemon=True).start()

    def ask(self, settings: Mapping[str, str], kinds: Sequence[str]) -> None:
        """Start those of the jobs that do not run, with settings beside those that all of them have."""
        self.tell(f"start {json.dumps(settings, separators=(',', ':'))} {' '.join(kinds)}")

    def tell(self, line: str) -> None:
        """A line for the newest process."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):  # it has just died
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def news(self, wait_seconds: float = 0.05) -> Iterator[Told]:
        with suppress(Empty):
            yield self._told.get(timeout=wait_seconds)
            while True:
                yield self._told.get_nowait()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def crash(self) -> None:
        """Kill the process, and nothing below it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        """The process and all below it."""
        if self.process is not None:
            if self.lives:
                kill_all(self.pid)
            self.process.wait()
            assert self.process.stdin is not None
            with suppress(OSError):
                self.process.stdin.close()

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing"

    def rows(self, kind: str) -> dict[str, pa.Table]:
        """What a job has committed to each of its tables."""
        return {name: committed(self.folder / kind / "out" / name) for name in KINDS[kind].tables}


def _read(output: IO[str], told: SimpleQueue[Told]) -> None:
    with output:
        for line in output:
            with suppress(ValueError):  # half a line of a process that was killed, or words of a library
                told.put(Told(**json.loads(line)))


def deadline() -> float:
    return time.monotonic() + TIMEOUT_SECONDS
