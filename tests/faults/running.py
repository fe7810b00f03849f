"""A job in a folder of its own, each start of it in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.faults.compare import committed
from tests.faults.jobs import FUNCTIONS, KINDS, MODULE
from tests.faults.processes import kill_all

TIMEOUT_SECONDS = 900.0


class Hangs(Exception):
    """A job that neither ends nor gets on; it has been killed."""


_ERROR = re.compile(r"^(?:\S+: )?(SS\d{3}: .+)", re.MULTILINE)


@dataclass
class JobRun:
    """``starts`` counts its processes, of which ``process`` is the newest."""

    kind: str
    events: Path
    folder: Path
    master: str = "local[2]"
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def log(self) -> Path:
        """What the newest start has written."""
        return self.folder / f"{self.starts}.log"

    @property
    def epoch(self) -> int:
        """The newest complete epoch; -1 before the first."""
        return max((int(p.name) for p in self.checkpoints.glob("*/spark/commits/[0-9]*")), default=-1)

    def prepare(self) -> None:
        self.checkpoints.mkdir(parents=True)
        (self.folder / f"{MODULE}.py").write_text(FUNCTIONS)
        (self.folder / "job.sql").write_text(KINDS[self.kind].script(self.events, self.folder / "out"))

    def environment(self) -> dict[str, str]:
        known = (str(self.folder), os.environ.get("PYTHONPATH", ""))
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))}

    @property
    def command(self) -> list[str]:
        run = [sys.executable, "-m", "sqlstream", "run", str(self.folder / "job.sql"), "--master", self.master]
        return [*run, "--set", f"execution.checkpointing.dir={self.checkpoints}"]

    def start(self) -> None:
        self.starts += 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, env=self.environment(), stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def ended(self) -> int | None:
        """The exit code of the newest start; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def wait(self, condition: Callable[[], bool] = lambda: False) -> bool:
        """Until ``condition`` holds, True, or the process has ended, False; Hangs where neither comes."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self.ended is not None:
                return False
            if time.monotonic() > until:
                self.kill()
                raise Hangs(f"{self.kind}: the job hangs; see {self.log}")
            time.sleep(0.05)
        return True

    def kill(self) -> None:
        assert self.process is not None
        if self.ended is None:
            kill_all(self.pid)
        self.process.wait()

    def failure(self) -> str:
        """What the newest start says of its failure, in one line: an error of sqlstream, or the last line of all."""
        text = self.log.read_text(errors="replace")
        found = _ERROR.findall(text)
        lines = text.strip().splitlines()
        return found[0] if found else f"no message: {lines[-1] if lines else 'nothing'}"

    def rows(self) -> dict[str, pa.Table]:
        """What the job has committed to each of its tables."""
        return {name: committed(self.folder / "out" / name) for name in KINDS[self.kind].tables}
