"""``python -m tests.fuzz --seed N --minutes M``: mutated texts, what came of them, and what is wrong with us."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.fuzz.campaign import Campaign, Group


def main() -> int:
    """Prints a report; 1 where there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="Texts depend on it and their number alone.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="Number of the first text.")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # sqlglot warns of what it leaves out; the tree that comes back shows it
    console = Console()
    console.print(f"seed {arguments.seed}, {arguments.minutes:g} minutes")
    campaign = Campaign(arguments.seed, _tell)
    started = time.monotonic()
    campaign.run(minutes=arguments.minutes, first=arguments.first)
    seconds = time.monotonic() - started
    console.print(f"{campaign.texts:,} texts, {campaign.texts / seconds:.0f} per second")
    console.print(_kinds(campaign))
    for name, group in sorted(campaign.groups.items(), key=lambda item: -item[1].times):
        console.rule()
        console.print(f"{name}: {group.times} times, first in text {group.number}", markup=False)
        console.print(repr(group.text), markup=False)
        console.print(group.details, markup=False)
    return 1 if campaign.groups else 0


def _tell(name: str, group: Group) -> None:
    """At once: who sees it need not wait for the end of the hour."""
    print(f"text {group.number}: {name}: {group.text!r}", flush=True)


def _kinds(campaign: Campaign) -> Table:
    table = Table("outcome", "texts")
    for kind, times in campaign.kinds.most_common():
        table.add_row(kind, f"{times:,}")
    return table


if __name__ == "__main__":
    sys.exit(main())
