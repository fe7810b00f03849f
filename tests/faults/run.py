"""Faults at random moments of jobs of every kind that keeps state, and what comes out in the end.

``make test-faults``, or ``python -m tests.faults.run --rows 200000 --moments 3 --kinds set --faults driver,disk``.
A job reads the same events undisturbed and then once per fault, which strikes at several moments, one after the other;
whenever it has failed it is started again. In the end its committed rows must be those of the undisturbed run. A start
that refuses a damaged checkpoint must name the file, and goes on when the file is given back.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tests.faults.compare import difference
from tests.faults.disk import may_mount
from tests.faults.events import write_events
from tests.faults.inject import FAULTS, Struck, moments, strike
from tests.faults.jobs import KINDS
from tests.faults.running import JobRun


@dataclass(frozen=True)
class Outcome:
    """``differs`` says how, None where the rows are those of the undisturbed run."""

    kind: str
    fault: str
    struck: Struck
    starts: int
    differs: str | None
    seconds: float

    @property
    def holds(self) -> bool:
        return self.differs is None and not self.struck.unclear and self.struck.tried > 0

    @property
    def verdict(self) -> str:
        if self.differs is not None:
            return "DIFFERENT"
        return "UNCLEAR" if self.struck.unclear else "equal" if self.struck.tried else "not tried"


def undisturbed(kind: str, events: Path, folder: Path) -> dict[str, pa.Table]:
    run = JobRun(kind, events, folder)
    run.prepare()
    run.start()
    run.wait()
    if run.ended:
        raise SystemExit(f"{kind}: the undisturbed job failed: {run.failure()}")
    return run.rows()


def disturbed(
    kind: str, fault: str, count: int, epochs: int, events: Path, folder: Path, expected: dict[str, pa.Table], seed: str
) -> Outcome:
    """``seed`` decides on the moments and on what exactly is struck."""
    chance, begun = random.Random(seed), time.monotonic()
    run = JobRun(kind, events, folder)
    run.prepare()
    struck = strike(run, fault, moments(count, epochs, chance), chance)
    differs = (
        _difference(expected, run.rows())
        if not struck.stuck
        else f"does not recover: {(struck.failed + struck.unclear)[-1:]}"
    )
    return Outcome(kind, fault, struck, run.starts, differs, time.monotonic() - begun)


def _difference(expected: dict[str, pa.Table], found: dict[str, pa.Table]) -> str | None:
    parts = [f"{name}: {how}" for name in expected if (how := difference(expected[name], found[name]))]
    return "; ".join(parts) or None


def outcomes(chosen: argparse.Namespace, folder: Path) -> list[Outcome]:
    console, found = Console(width=160, highlight=False), []
    events = folder / "events"
    write_events(events, chosen.rows, chosen.files, chosen.seed)
    for kind in chosen.kinds:
        begun = time.monotonic()
        expected = undisturbed(kind, events, folder / kind / "undisturbed")
        rows = " and ".join(f"{table.num_rows:,}" for table in expected.values())
        console.print(f"{kind}: {rows} rows undisturbed, {time.monotonic() - begun:.0f} s")
        for fault in chosen.faults:
            at, seed = folder / kind / fault, f"{chosen.seed}/{kind}/{fault}"
            outcome = disturbed(kind, fault, chosen.moments, chosen.files, events, at, expected, seed)
            found.append(outcome)
            console.print(
                f"{kind}, {fault}: {outcome.verdict}, {outcome.struck.tried} moments, {outcome.seconds:.0f} s"
            )
            if outcome.differs is not None:
                console.print(f"  {outcome.differs}; see {at}")
            elif not chosen.keep:
                shutil.rmtree(at)
    return found


def table_of(found: Sequence[Outcome], chosen: argparse.Namespace) -> Table:
    disk = "a tmpfs" if may_mount() else "RLIMIT_FSIZE (nothing may be mounted here)"
    title = (
        f"{chosen.rows:,} rows in {chosen.files} epochs, seed {chosen.seed}; the full disk is {disk}.\n"
        "moments: strikes before the job's end; refused: starts that refused the damaged file; failed: those that "
        "failed otherwise"
    )
    table = Table("kind", "fault", "moments", "starts", "refused", "failed", "rows", title=title, title_justify="left")
    for outcome in found:
        struck = outcome.struck
        counts = (struck.tried, outcome.starts, len(struck.refused), len(struck.failed))
        table.add_row(outcome.kind, outcome.fault, *map(str, counts), outcome.verdict)
    return table


def messages_of(found: Sequence[Outcome]) -> list[str]:
    """What starts have said, with names and numbers left out, by fault, the most frequent first."""
    said: Counter[str] = Counter()
    for outcome in found:
        told = {"refused": outcome.struck.refused, "failed": outcome.struck.failed, "UNCLEAR": outcome.struck.unclear}
        for what, texts in told.items():
            said.update(f"{outcome.fault}, {what}: {_shortened(text)}" for text in texts)
    return [f"{count:4} × {text}" for text, count in said.most_common()]


def _shortened(text: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"[\w-]*/[^\s\"]*/", "…/", text[:300]))


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
    parser.add_argument("--moments", type=int, default=10, help="of each kind and fault (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the input (default: %(default)s)")
    parser.add_argument("--files", type=int, default=40, help="each an epoch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="repeats a run")
    parser.add_argument("--folder", type=Path, help="where all is kept; else it goes when the rows are equal")
    chosen = parser.parse_args(arguments)
    chosen.keep = chosen.folder is not None
    print(f"seed {chosen.seed}; {os.cpu_count()} cores", flush=True)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="sqlstream-faults-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what has been started and mounted goes with us
    found = outcomes(chosen, folder)
    console = Console(width=160, highlight=False)
    console.print("", table_of(found, chosen))
    console.print("\n".join(messages_of(found)), soft_wrap=True)
    if not all(outcome.holds for outcome in found):
        return 1
    if not chosen.keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
