"""Where the cases of other engines' test suites are, and which of them are due.

``SQLSTREAM_PEERS`` names their directory; by default it is ``../shared/peers`` beside this repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlstream.testing.case_format import case_files

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[2] / ".." / "shared" / "peers").resolve()

MISSING = f"no cases of peers at {PEERS}"

DUE = {
    "_differs", "arroyo", "beam", "feldera-nexmark", "flink-async", "flink-barrier-aligned", "flink-barrier-buffer",
    "flink-barrier-tracker", "flink-examples", "flink-lookup-join", "flink-merging-window-set", "flink-sql-itcase",
    "flink-sql-window-operator", "flink-temporal-join", "flink-timers", "flink-trigger", "flink-watermark-valve",
    "flink-window-assigner", "flink-window-operator", "risingwave-nexmark", "risingwave-slt", "spark-streaming",
    "storm-window",
}  # fmt: skip
"""The suites that are to run today. Those of operators that are still to come lie beside them, and may be refused or
fail: a suite is added here together with the operators that it judges."""


def files_of(*suites: str) -> list[Path]:
    """The case files of some suites; none where the cases are not at hand."""
    return [path for suite in suites if (PEERS / suite).is_dir() for path in case_files(PEERS / suite)]


def due_files() -> list[Path]:
    return files_of(*sorted(DUE))
