"""What goes wrong, at random moments: each fault strikes all jobs that run, again and again, before they may end."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlstream.settings import STATE_MEMORY
from tests.faults.cluster import Cluster
from tests.faults.disk import Disk
from tests.faults.processes import Process, descendants, executors, kill, python_workers
from tests.faults.running import Fleet, Hangs, deadline
from tests.faults.struck import Cut, Records

LOCAL = ("driver", "worker", "disk", "truncate")
FAULTS = (*LOCAL, "executor")

_LONGEST_DELAY_SECONDS = 1.0
_NOTICE_SECONDS = 240.0
"""Within it jobs notice that Spark is gone, or that the disk is full."""
RESTARTS = "restart-strategy.type"
_STRATEGIES = ("none", "fixed-delay")
_MEMORIES = ("0", "16mb", "256mb")
"""Of 'state.memory': none, some of what the jobs keep, all of it."""


def schedule(faults: Sequence[str], moments: int, chance: random.Random) -> list[str]:
    """Each fault so many times, in any order."""
    planned = [fault for fault in faults for _ in range(moments)]
    chance.shuffle(planned)
    return planned


class Siege:
    """Runs jobs to their end while faults strike. ``disk`` holds the checkpoints, ``machines`` the executors."""

    def __init__(
        self, fleet: Fleet, chance: random.Random, disk: Disk | None = None, machines: Cluster | None = None
    ) -> None:
        self.records = Records(fleet)
        self._fleet = fleet
        self._chance = chance
        self._disk = disk
        self._machines = machines
        self._orphans: set[int] = set()

    def run(self, planned: Sequence[str], on_strike: Callable[[int], None] = lambda _: None) -> None:
        """``on_strike`` is called before each strike with the number of those before it.

        The input is handed out from strike to strike: no job ends before the last one, and all have something to do."""
        try:
            self._fleet.hand_out(1 / (len(planned) + 1))
            self._start()
            for number, fault in enumerate(planned):
                self._wait_for_epochs()
                if not self.records.living:
                    break
                time.sleep(self._chance.uniform(0, _LONGEST_DELAY_SECONDS))
                on_strike(number)
                self.records.begin(fault)
                self._fleet.hand_out((number + 2) / (len(planned) + 1))
                self._strike(fault)
            if planned:
                self._tend_until(lambda: not self.records.in_state("asked", "failed"))
                self._start()
            self._tend_until(lambda: not self.records.living)
        finally:
            self._fleet.kill()
            for pid in self._orphans & {process.pid for process in descendants(1) if "java" in process.command}:
                kill(pid)

    def _strike(self, fault: str) -> None:
        match fault:
            case "driver":
                self._kill_driver()
            case "worker":
                self._kill_each(lambda: python_workers(self._fleet.pid))
            case "executor":
                assert self._machines is not None
                workers = self._machines.workers
                self._kill_one(lambda: [item for worker in workers for item in executors(worker)])
            case "disk":
                self._fill()
            case "truncate":
                self._truncate()
            case _:
                raise ValueError(fault)

    # --- the faults ---

    def _kill_driver(self) -> None:
        """The process of the jobs, its JVM, or both. Without the process the JVM ends by itself, and the next start
        does not wait for that; without the JVM the jobs have to notice."""
        jvms = [item.pid for item in descendants(self._fleet.pid) if "java" in item.command]
        self._orphans |= {*jvms}
        victim = self._chance.choice(("process", "JVM", "both"))
        for pid in jvms if victim != "process" else ():
            kill(pid)
        if victim == "JVM":
            self._wait_for_failures("goes on without Spark")
        self._fleet.crash()
        self._start()

    def _kill_each(self, find: Callable[[], Sequence[Process]]) -> None:
        """All workers: jobs that have none at work meet the dead ones later."""
        for victim in self._found(find):
            kill(victim.pid)

    def _kill_one(self, find: Callable[[], Sequence[Process]]) -> None:
        if victims := self._found(find):
            kill(self._chance.choice(victims).pid)

    def _found(self, find: Callable[[], Sequence[Process]]) -> Sequence[Process]:
        victims: Sequence[Process] = ()
        until = time.monotonic() + _NOTICE_SECONDS
        while not victims and self.records.living:
            if time.monotonic() > until:
                raise Hangs(f"no process to strike in {_NOTICE_SECONDS:.0f} s; see {self._fleet.log}")
            self._tend()
            victims = find()
        return victims

    def _fill(self) -> None:
        """Until all jobs have failed of it."""
        assert self._disk is not None
        self._disk.fill(self._fleet.pid, left=self._chance.choice((0, 4096, 65536)))
        self._wait_for_failures("goes on with a full disk")
        self._disk.free()
        if not self._disk.mounted:  # the limit of a process cannot be lifted
            self._fleet.kill()
            self._start()

    def _truncate(self) -> None:
        """Kill everything and cut off the newest file of each checkpoint."""
        self._fleet.kill()
        for kind in self.records.living:
            files = [path for path in (self._fleet.checkpoints / kind).rglob("*") if path.is_file()]
            if files:
                self._cut(kind, max(files, key=lambda path: path.stat().st_mtime_ns))
        self._start()

    def _cut(self, kind: str, newest: Path) -> None:
        kept = self._fleet.folder / kind / "kept"
        shutil.copy2(newest, kept)
        with newest.open("r+b") as file:
            file.truncate(self._chance.choice((0, newest.stat().st_size // 2)))
        self.records.cuts[kind] = Cut(newest, kept, self._fleet.epoch(kind))

    # --- starting again ---

    def _start(self) -> None:
        self._fleet.start()
        self._ask(self.records.living)

    def _ask(self, kinds: Sequence[str]) -> None:
        """In any order, because the first ones have a start over the others."""
        for kind in kinds:
            self.records.states[kind] = "asked"
        settings = {RESTARTS: self._chance.choice(_STRATEGIES), STATE_MEMORY: self._chance.choice(_MEMORIES)}
        self._fleet.ask(settings, self._chance.sample([*kinds], len(kinds)))

    def _tend(self) -> None:
        """Hear the news, and start again what has failed, or the process."""
        self._hear()
        if not self._fleet.lives:
            for kind in self.records.living:
                self.records.of(kind, self.records.fault).unclear.append(f"process ended: {self._fleet.last_words()}")
            self._start()
        elif failed := self.records.in_state("failed"):
            self._ask(failed)

    def _hear(self) -> None:
        for told in self._fleet.news():
            self.records.hear(told)

    def _wait_for_failures(self, otherwise: str) -> None:
        """Until no job runs; of one that does not notice what has happened it is said."""
        until = time.monotonic() + _NOTICE_SECONDS
        while self.records.in_state("running", "asked") and time.monotonic() < until and self._fleet.lives:
            self._hear()
        for kind in self.records.in_state("running"):
            self.records.of(kind, self.records.fault).unclear.append(otherwise)

    def _wait_for_epochs(self) -> None:
        """Until half of the jobs, or more of them, or all have completed an epoch more."""
        before = {kind: self._fleet.epoch(kind) for kind in self.records.living}
        wanted = self._chance.randint((len(before) + 1) // 2, len(before))

        def are_further() -> bool:
            living = self.records.living
            return sum(self._fleet.epoch(kind) > before[kind] for kind in living) >= min(wanted, len(living))

        self._tend_until(are_further)

    def _tend_until(self, condition: Callable[[], bool]) -> None:
        """Jobs that hang are given up."""
        until, known = deadline(), self._signs()
        while not condition():
            self._tend()
            if known != (known := self._signs()):
                until = deadline()
            if time.monotonic() > until:
                for kind in self.records.living:
                    self.records.stuck(kind, f"hangs; see {self._fleet.log}")

    def _signs(self) -> object:
        """Of life."""
        return {kind: (self._fleet.epoch(kind), state) for kind, state in self.records.states.items()}
