"""Faults at random moments of jobs of every kind that keeps state, and what comes out in the end.

``make test-faults``, or ``python -m tests.faults.run --rows 200000 --moments 3 --kinds set,hop --faults driver,disk``.
The jobs of all kinds run side by side in one process, which reads the same events undisturbed and then while faults
strike: those of this machine in any order, then those of a cluster. Whenever a job has failed it is started again. In
the end its committed rows must be those of the undisturbed one. A start that refuses a damaged checkpoint must name the
file, and gets it back.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from sqlstream.testing.spark import local_spark
from tests.faults.cluster import cluster
from tests.faults.compare import difference
from tests.faults.disk import disk_at
from tests.faults.events import write_events
from tests.faults.inject import FAULTS, LOCAL, Siege, schedule
from tests.faults.jobs import KINDS
from tests.faults.report import Outcome, Report
from tests.faults.running import Fleet
from tests.faults.sinks import sinks_hold
from tests.faults.sources import strike_sources
from tests.faults.struck import Records

_RUNS = {"local": LOCAL, "cluster": ("executor",)}

Rows = dict[str, dict[str, pa.Table]]
"""By kind and table."""


def undisturbed(kinds: Sequence[str], events: Path, folder: Path) -> Rows:
    """SystemExit where a job does not come to its end. On a machine with too much to do one may fail, and recover."""
    fleet = Fleet(kinds, events, folder)
    fleet.prepare()
    siege = Siege(fleet, random.Random(0))
    siege.run([])
    for (kind, _), struck in siege.records.struck.items():
        if siege.records.states[kind] == "stuck":
            raise SystemExit(f"{kind}: the undisturbed job failed: {struck}; see {fleet.log}")
        print(f"{kind}: the undisturbed job has failed and recovered: {struck.failed + struck.unclear}", flush=True)
    return {kind: fleet.rows(kind) for kind in kinds}


def expected_rows(chosen: argparse.Namespace, folder: Path) -> Rows:
    """Those of the undisturbed run, which a folder keeps for later runs over the same input. SystemExit for another."""
    source = {"rows": chosen.rows, "files": chosen.files, "seed": chosen.seed}
    events, at, note = folder / "events", folder / "undisturbed", folder / "undisturbed.json"
    if not note.exists():
        write_events(events, chosen.rows, chosen.files, chosen.seed)
        rows = undisturbed(chosen.kinds, events, at)
        note.write_text(json.dumps({"input": source, "kinds": [*chosen.kinds]}))
        return rows
    known = json.loads(note.read_text())
    if known["input"] != source or not {*chosen.kinds} <= {*known["kinds"]}:
        raise SystemExit(f"{folder} holds an undisturbed run over other input: {known}")
    for name in _RUNS:
        shutil.rmtree(folder / name, ignore_errors=True)
    fleet = Fleet(chosen.kinds, events, at)
    return {kind: fleet.rows(kind) for kind in chosen.kinds}


def besieged(fleet: Fleet, planned: Sequence[str], chance: random.Random, expected: Rows, report: Report) -> Records:
    """The outcome of each strike and of the whole goes to the report."""
    fleet.prepare()
    with ExitStack() as around:
        disk = around.enter_context(disk_at(fleet.checkpoints)) if "disk" in planned else None
        machines = None
        if "executor" in planned:
            machines = around.enter_context(cluster(fleet.folder / "cluster", fleet.environment()))
            fleet.master = machines.url
        siege = Siege(fleet, chance, disk, machines)
        siege.run(planned, lambda number: report.on_strike(siege.records, planned, number))
        for kind in siege.records.in_state("stuck"):  # a disk that was mounted takes its files with it
            shutil.copytree(fleet.checkpoints / kind, fleet.folder / kind / "stuck")
    for kind in fleet.kinds:
        report.add(siege.records, planned, kind, _outcome(siege.records, kind, expected[kind]))
    return siege.records


def _outcome(records: Records, kind: str, expected: dict[str, pa.Table]) -> Outcome:
    if records.states[kind] == "stuck":
        return Outcome(None, stuck=True)
    actual = records.fleet.rows(kind)
    parts = [f"{name}: {how}" for name in expected if (how := difference(expected[name], actual[name]))]
    return Outcome("; ".join(parts) or None)


def run(chosen: argparse.Namespace, folder: Path) -> bool:
    """Whether all holds."""
    begun = time.monotonic()
    report = Report(folder / "table.txt", chosen)
    expected = expected_rows(chosen, folder)
    for kind in chosen.kinds:
        rows = " and ".join(f"{table.num_rows:,}" for table in expected[kind].values())
        report.say(f"{kind}: {rows} rows undisturbed")
    report.say(f"{time.monotonic() - begun:.0f} s")
    for name, faults in _RUNS.items():
        chance = random.Random(f"{chosen.seed}/{name}")
        if planned := schedule([fault for fault in faults if fault in chosen.faults], chosen.moments, chance):
            fleet = Fleet(chosen.kinds, folder / "events", folder / name)
            besieged(fleet, planned, chance, expected, report)
            report.say(f"{name}: {fleet.starts} starts, {time.monotonic() - begun:.0f} s since the beginning")
    report.end()
    holds = strike_sources(folder / "sources", local_spark(), report.say)
    return sinks_hold(folder / "sinks") and holds and report.holds


def _names(known: Sequence[str]) -> type:
    def chosen(text: str) -> list[str]:
        names = text.split(",")
        wrong = [name for name in names if name not in known]
        if wrong:
            raise argparse.ArgumentTypeError(f"{wrong[0]} is none of {', '.join(known)}")
        return names

    return chosen  # type: ignore[return-value]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Faults at random moments of jobs of every stateful kind.")
    parser.add_argument("--kinds", type=_names([*KINDS]), default=[*KINDS], help=f"of {','.join(KINDS)}")
    parser.add_argument("--faults", type=_names(FAULTS), default=[*FAULTS], help=f"of {','.join(FAULTS)}")
    parser.add_argument("--moments", type=int, default=10, help="of each fault (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the input (default: %(default)s)")
    parser.add_argument("--files", type=int, default=50, help="each an epoch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="repeats a run")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where all is kept, also for a later run over the same input; else it goes when the rows are equal",
    )
    chosen = parser.parse_args(arguments)
    if chosen.files <= (strikes := chosen.moments * len({*chosen.faults} & {*LOCAL})):
        parser.error(f"--files: {strikes} strikes take more than {chosen.files}")
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="sqlstream-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {chosen.seed}; {os.cpu_count()} cores; {folder}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what has been started and mounted goes with us
    if not run(chosen, folder):
        return 1
    if chosen.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
