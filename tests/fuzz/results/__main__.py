"""Random queries as streams, as finished data and in DuckDB: every difference, as small as it gets, as a golden file.

Each round depends on the seed and its number alone, so ``--first N --rounds 1`` repeats one.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from threading import Event, Thread

from rich.console import Console
from rich.table import Table

from tests.fuzz.results.campaign import WAYS, Campaign

_PROGRESS_S = 60


def main() -> int:
    """Prints a report; 1 where there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.results", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="Tables, changes and queries depend on it.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="Number of the first round.")
    parser.add_argument("--rounds", type=int, help="How many rounds at most.")
    parser.add_argument("--most", type=int, default=20, help="Differences after which it ends.")
    help_of_ways = (
        "Streams by the kernels alone, without Spark; finished data; streams on Spark. All three if not given."
    )
    parser.add_argument("--ways", nargs="+", choices=sorted(WAYS), default=sorted(WAYS), help=help_of_ways)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # PySpark logs each refusal with its stack
    console = Console()
    console.print(f"seed {arguments.seed}, {arguments.minutes:g} minutes")
    campaign = Campaign(arguments.seed, _tell, frozenset(arguments.ways), most=arguments.most)
    done, started = Event(), time.monotonic()
    Thread(target=_show_progress, args=(campaign, done, started), daemon=True).start()
    try:
        campaign.run(minutes=arguments.minutes, rounds=arguments.rounds, first=arguments.first)
    except KeyboardInterrupt:
        console.print("stopped")
    done.set()
    console.print(_counts("compared", campaign.compared))
    console.print(_counts("kind of query", campaign.kinds))
    console.print(_counts("not compared", campaign.others))
    for name, text in campaign.refused.items():
        console.print(f"refused: {name}\n    {text}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{campaign.compared.total():,} comparisons, {len(campaign.findings)} differences")
    return 1 if campaign.findings else 0


def _tell(text: str) -> None:
    """At once: who sees it need not wait for the end of the hour."""
    print(f"\n{text}\n", flush=True)


def _show_progress(campaign: Campaign, done: Event, started: float) -> None:
    while not done.wait(_PROGRESS_S):
        minutes = (time.monotonic() - started) / 60
        number, found = campaign.compared.total(), len(campaign.findings)
        print(f"{minutes:.0f} min: {number:,} comparisons, {found} differences", file=sys.stderr, flush=True)


def _counts(name: str, counts: dict[str, int]) -> Table:
    table = Table(name, "queries")
    for kind, number in sorted(counts.items(), key=lambda item: -item[1]):
        table.add_row(kind, f"{number:,}")
    return table


if __name__ == "__main__":
    sys.exit(main())
