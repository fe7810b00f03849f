"""Runs a folder of cases of other engines, in SQL and below it: ``python -m tests.peers [FOLDER] [--select TEXT]``.

It prints what ``sqlstream test --cases`` prints, and also drives the cases that have no script, without Spark.
Cases that are argued in ``tests/peers/argued.py`` differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sqlstream.paths import importable
from sqlstream.testing.cases import main
from tests.peers import PEERS
from tests.peers.argued import ARGUED, FUNCTIONS
from tests.peers.below_sql import run_kernel_case


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PEERS, help=f"where the cases are (default: {PEERS})")
    parser.add_argument("--select", metavar="TEXT", help="only cases whose path contains this")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the results as JSON")
    parser.add_argument("--bounded", action="store_true", help="compute steps as bounded jobs: many times as fast")
    given = parser.parse_args(arguments)
    with importable(FUNCTIONS):
        return main(
            given.folder,
            given.json,
            given.select,
            below_sql=run_kernel_case,
            argued=ARGUED,
            streaming=not given.bounded,
        )


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
