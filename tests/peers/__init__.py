"""Where the cases of other engines' test suites are, and which of them are due.

``SQLSTREAM_PEERS`` names their directory; by default it is ``../shared/peers`` beside this repository. A case in SQL
starts a query of Spark, and all of them take a quarter of an hour: tests run every third of the large suites, always
the same, and all of them where ``SQLSTREAM_ALL_PEERS`` is set (``make test-peers``).
"""

from __future__ import annotations

import os
import zlib
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


ALL = bool(os.environ.get("SQLSTREAM_ALL_PEERS"))

_IN_PART = {
    "arroyo", "flink-sql-itcase", "flink-sql-window-operator", "flink-watermark-valve", "flink-window-assigner",
    "flink-window-operator", "risingwave-nexmark", "risingwave-slt", "storm-window",
}  # fmt: skip
"""Large suites, of which a third is enough to see that nothing has broken."""


def files_of(*suites: str) -> list[Path]:
    """The case files of some suites; none where the cases are not at hand."""
    return [path for suite in suites if (PEERS / suite).is_dir() for path in case_files(PEERS / suite)]


def due_files() -> list[Path]:
    """All cases of the suites that are due."""
    return files_of(*sorted(DUE))


def files_to_run() -> list[Path]:
    """The cases that tests run: all of small suites, and a third of the others, chosen by name: new cases do not change
    which of the old ones run."""
    return [path for path in due_files() if ALL or not _is_left_out(path)]


def _is_left_out(path: Path) -> bool:
    case = path.relative_to(PEERS)
    return case.parts[0] in _IN_PART and zlib.crc32(case.as_posix().encode()) % 3 != 0
