"""What goes wrong, at random moments of a job's life: each fault strikes one job several times, one after the other."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.faults.cluster import Cluster, cluster
from tests.faults.disk import Disk, disk_at
from tests.faults.processes import Process, descendants, executors, kill, python_workers
from tests.faults.running import Hangs, JobRun

FAULTS = ("driver", "worker", "executor", "disk", "truncate")

_MOST_FAILURES = 3
"""So many failures in a row without a new epoch are no recovery."""
_OURS = re.compile(r"SS\d{3}: ")


@dataclass(frozen=True)
class Moment:
    """Strikes ``delay_s`` after an epoch behind ``epoch``, and behind all that were there when the job was started."""

    epoch: int
    delay_s: float


def moments(count: int, epochs: int, chance: random.Random) -> list[Moment]:
    """In order, spread over a job with so many epochs."""
    last = max(epochs * 2 // 3, count)  # each takes an epoch or two, and all are to come before the end
    chosen = sorted(chance.sample(range(-1, last), count))
    return [Moment(epoch, chance.uniform(0, 1)) for epoch in chosen]


@dataclass
class Struck:
    """``tried`` are the moments that came before the job's end. ``refused`` are messages with which a start refused a
    damaged checkpoint, ``failed`` those of other failures, ``unclear`` what is no message of ours, or one that does not
    name the damaged file."""

    tried: int = 0
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    stuck: bool = False
    failed_at: int = -2
    failures_in_a_row: int = 0


def strike(run: JobRun, fault: str, planned: Sequence[Moment], chance: random.Random) -> Struck:
    """Run a job to its end while ``fault`` strikes at each of the moments."""
    found = Struck()
    with ExitStack() as around:
        striking = _striking(run, fault, found, chance, around)
        around.callback(lambda: run.kill() if run.process is not None else None)
        run.start()
        try:
            _live_through(run, striking, planned, found)
        except Hangs as error:
            found.stuck = True
            found.unclear.append(str(error))
    return found


def _live_through(run: JobRun, striking: Callable[[], bool], planned: Sequence[Moment], found: Struck) -> None:
    for moment in planned:
        if not _reached(run, moment, found):
            break
        time.sleep(moment.delay_s)
        if run.ended == 0:
            break
        found.tried += striking()
    while not found.stuck and not _finished(run, found):
        pass


def _striking(run: JobRun, fault: str, found: Struck, chance: random.Random, around: ExitStack) -> Callable[[], bool]:
    match fault:
        case "driver":
            orphans: list[int] = []
            around.callback(lambda: _end(orphans))
            return lambda: _kill_driver(run, chance, orphans)
        case "worker":
            return lambda: _kill_one(run, lambda: python_workers(run.pid), chance)
        case "executor":
            machines = around.enter_context(cluster(run.folder / "cluster", run.environment()))
            run.master = machines.url
            return lambda: _kill_executor(run, machines, chance)
        case "disk":
            disk = around.enter_context(disk_at(run.checkpoints))
            return lambda: _fill(run, disk, chance)
        case "truncate":
            return lambda: _truncate(run, found, chance)
    raise ValueError(fault)


# --- the faults ---


def _kill_driver(run: JobRun, chance: random.Random, orphans: list[int]) -> bool:
    """The process of the job, its JVM, or both; whichever is left ends by itself, and the next start does not wait."""
    jvms = [p.pid for p in descendants(run.pid) if "java" in p.command]
    orphans += jvms
    victims = chance.choice([[run.pid], jvms, [run.pid, *jvms]])
    for pid in victims:
        kill(pid)
    if run.pid in victims:
        run.wait()
    return bool(victims)


def _end(jvms: Sequence[int]) -> None:
    """Those that have not ended with their job."""
    living = {process.pid for process in descendants(1) if "java" in process.command}
    for pid in living & {*jvms}:
        kill(pid)


def _kill_one(run: JobRun, find: Callable[[], Sequence[Process]], chance: random.Random) -> bool:
    """One of those that ``find`` finds, as soon as there is one; False where the job ends before."""
    while run.ended is None:
        if victims := find():
            kill(chance.choice(victims).pid)
            return True
        time.sleep(0.05)
    return False


def _kill_executor(run: JobRun, machines: Cluster, chance: random.Random) -> bool:
    return _kill_one(run, lambda: [p for worker in machines.workers for p in executors(worker)], chance)


def _fill(run: JobRun, disk: Disk, chance: random.Random) -> bool:
    """Until the job fails of it."""
    disk.fill(run.pid, left=chance.choice((0, 4096, 65536)))
    run.wait()
    disk.free()
    return True


def _truncate(run: JobRun, found: Struck, chance: random.Random) -> bool:
    """Kill the job and cut its newest file; where it then refuses to start, give it back the file."""
    run.kill()
    files = [path for path in run.checkpoints.rglob("*") if path.is_file()]
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    kept = run.folder / "kept"
    shutil.copy2(newest, kept)
    with newest.open("r+b") as file:
        file.truncate(chance.choice((0, newest.stat().st_size // 2)))
    before = run.epoch
    run.start()
    if run.wait(lambda: run.epoch > before) or run.ended == 0:
        return True
    message = run.failure()
    name = str(newest.relative_to(run.checkpoints))
    checked = name.replace("/.", "/").removesuffix(".crc")  # checksums that do not fit are told of their file
    named = _OURS.match(message) and checked in run.log.read_text(errors="replace")
    (found.refused if named else found.unclear).append(message if named else f"{name}: {message}")
    shutil.copy2(kept, newest)
    run.start()
    return True


# --- starting again ---


def _reached(run: JobRun, moment: Moment, found: Struck) -> bool:
    """True an epoch later, at the moment; False where the job has come to its end before, or does not recover."""
    least = max(moment.epoch, run.epoch)
    while not run.wait(lambda: run.epoch > least):
        if run.ended == 0 or not _start_again(run, found):
            return False
    return True


def _finished(run: JobRun, found: Struck) -> bool:
    run.wait()
    return run.ended == 0 or not _start_again(run, found)


def _start_again(run: JobRun, found: Struck) -> bool:
    """False where the job has failed again and again at the same epoch."""
    _note(run, found)
    found.failures_in_a_row = found.failures_in_a_row + 1 if run.epoch == found.failed_at else 1
    found.failed_at = run.epoch
    if found.failures_in_a_row > _MOST_FAILURES:
        found.stuck = True
        return False
    run.start()
    return True


def _note(run: JobRun, found: Struck) -> None:
    """What the job has said of its failure; one that was killed has said nothing."""
    if run.ended is not None and run.ended > 0:
        message = run.failure()
        (found.failed if _OURS.match(message) else found.unclear).append(message)
