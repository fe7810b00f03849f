"""How fresh a materialized view is, and what ten kills with -9 do to it: ``make bench-views``.

``python -m examples.views.bench [--seconds 30] [--rates 1000 50000] [--kills 10] [--only freshness|kills]``. Rows come
in files, five or ten a second; ``sqlstream serve`` keeps a GROUP BY of 50 shops in the embedded PostgreSQL, and a
thread reads the table through psycopg without a pause to speak of. Freshness is the time from the file's appearance in
its directory to the first read that has its rows. In a whole epoch all shops have as many rows, which each read checks.

``make check-psql`` kills with ``--through psql``: then psql, the program, is who reads, and the exit status is 1 where
it has seen anything but whole epochs, or rows are lost or doubled.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg
from rich.console import Console
from rich.table import Table

from examples.views.psql import PsqlReader, SeenByPsql, shown, version
from examples.views.served import COPIES, SCRIPT, Reader, Seen, Server, Writer, is_there, place

WARM_UP_S = 10.0
LIMIT_S = 1200.0
EPOCHS_BETWEEN = 5


def freshness(rate: int, seconds: float) -> tuple[Sequence[float], int, int, int]:
    """The seconds that each file took, rows per file, reads, and reads of no whole epoch."""
    with place() as folder:
        server = Server(folder, SCRIPT)
        server.start()
        url = server.url()
        _wait(partial(is_there, url, "totals"))
        reader, writer = Reader(url), Writer(folder, rate, 0.1)
        try:
            _wait(lambda: bool(reader.seen.visible))
            time.sleep(WARM_UP_S)
            first = len(writer.arrived)
            time.sleep(seconds)
            writer.stop()
            last = len(writer.arrived)
            _wait(lambda: len(reader.seen.visible) >= last)
        finally:
            writer.stop()
            reader.stop()
            server.stop()
        taken = [reader.seen.visible[number] - writer.arrived[number] for number in range(first, last)]
        return sorted(taken), writer.rows_per_file, reader.seen.reads, reader.seen.broken


@dataclass(frozen=True)
class Survived:
    """What was there after ``kills``, and what was seen meanwhile."""

    kills: int
    written: int
    rows: int
    distinct: int
    seen: Seen

    @property
    def is_whole(self) -> bool:
        seen = self.seen
        wrong = seen.broken
        if isinstance(seen, SeenByPsql):
            wrong += seen.back + seen.unlike + seen.errors
        return not wrong and self.written == self.rows == self.distinct


def kills(
    times: int, rate: int, minutes: float, tell: Callable[[str], None], reader_of: Callable[[str], Reader | PsqlReader]
) -> Survived:
    """Kill the server at random moments while rows come, start it again, and count; not longer than ``minutes``."""
    with place() as folder:
        server = Server(folder, SCRIPT + COPIES)
        server.start()
        url = server.url()
        _wait(partial(is_there, url, "copies"))
        reader, writer = reader_of(url), Writer(folder, rate, 0.2)
        try:
            done, end = 0, time.monotonic() + minutes * 60
            while done < times and time.monotonic() < end:
                _wait(partial(_more_epochs, reader, len(reader.seen.epochs) + EPOCHS_BETWEEN))
                time.sleep(random.uniform(0, 3))
                server.kill()
                server.start()
                done += 1
                seen = reader.seen
                tell(f"kill {done}: {len(seen.epochs)} epochs, {seen.reads:,} reads, {seen.broken} broken")
            writer.stop()
            _wait(lambda: max(reader.seen.visible, default=-1) == len(writer.arrived) - 1)
            _wait(lambda: _ids(url)[1] >= writer.rows)
            total, distinct = _ids(url)
            if isinstance(reader, PsqlReader):
                tell(shown(url, (r"\d", r"\d totals", "SELECT * FROM totals ORDER BY shop LIMIT 3")))
        finally:
            writer.stop()
            reader.stop()
            server.stop()
    return Survived(done, writer.rows, total, distinct, reader.seen)


def _survived(after: Survived, rate: int, through: str) -> Table:
    seen = after.seen
    cells = {
        "kills": after.kills,
        "rows written": after.written,
        "epochs seen": len(seen.epochs),
        "reads": seen.reads,
        "reads of no whole epoch": seen.broken,
        "rows lost": after.written - after.distinct,
        "rows doubled": after.rows - after.distinct,
    }
    if isinstance(seen, SeenByPsql):
        cells |= {
            "epochs that went back": seen.back,
            r"\d with both views": seen.described,
            "lost or doubled in between": seen.unlike,
            "errors of psql": seen.errors,
        }
    table = Table("", f"Kills with -9, {rate:,} rows/s, through {through}")
    for name, cell in cells.items():
        table.add_row(name, f"{cell:,}")
    return table


def _more_epochs(reader: Reader | PsqlReader, wanted: int) -> bool:
    return len(reader.seen.epochs) >= wanted


def _ids(url: str) -> tuple[int, int]:
    """Rows and different rows of the view that copies all."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM copies").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the view does not follow")
        time.sleep(0.05)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="of a measurement, behind ten to warm up")
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 50_000], help="rows per second")
    parser.add_argument("--kills", type=int, default=10, help="how often the server is killed")
    parser.add_argument("--minutes", type=float, default=30, help="no more kills after so long")
    parser.add_argument("--only", choices=("freshness", "kills"), help="one of the two")
    parser.add_argument("--through", choices=("psycopg", "psql"), default="psycopg", help="who reads during the kills")
    chosen = parser.parse_args()
    console = Console()
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    if chosen.only != "kills":
        table = _table(
            "From a file's arrival to its visibility through psycopg",
            ["rows/s", "files", "p50, ms", "p99, ms", "reads", "reads of no whole epoch"],
        )
        for rate in chosen.rates:
            taken, _, reads, broken = freshness(rate, chosen.seconds)
            p50, p99 = (taken[min(len(taken) - 1, int(len(taken) * part))] * 1000 for part in (0.5, 0.99))
            table.add_row(f"{rate:,}", f"{len(taken):,}", f"{p50:,.0f}", f"{p99:,.0f}", f"{reads:,}", f"{broken:,}")
        console.print(table)
    is_whole = True
    if chosen.only != "freshness":
        is_whole = _print_kills(chosen, console)
    console.print(f"load {os.getloadavg()[0]:.1f} after")
    raise SystemExit(not is_whole)


def _print_kills(chosen: argparse.Namespace, console: Console) -> bool:
    """Whether nothing was lost, doubled or seen in part."""
    tell = partial(console.print, highlight=False, markup=False)
    reader_of = PsqlReader if chosen.through == "psql" else Reader
    if chosen.through == "psql":
        tell(version())
    after = kills(chosen.kills, 1_000, chosen.minutes, tell, reader_of)
    console.print(_survived(after, 1_000, chosen.through))
    return after.is_whole


if __name__ == "__main__":
    main()
