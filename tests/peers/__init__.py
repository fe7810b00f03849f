"""Where the cases of other engines' test suites are, and which of them are due.

``SQLSTREAM_PEERS`` names their directory; by default it is ``../shared/peers`` beside this repository. A case in SQL
starts a query of Spark, and all of them take a quarter of an hour: tests run a sample of the large suites, always the
same, and all of them where ``SQLSTREAM_ALL_TESTS`` is set (``make test-peers``).
"""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from pathlib import Path

from sqlstream.testing.case_format import case_files
from tests.depth import ALL

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[2] / ".." / "shared" / "peers").resolve()

MISSING = f"no cases of peers at {PEERS}"

DUE = {
    "_differs", "arroyo", "beam", "duckdb-asof", "feldera-nexmark", "flink-async", "flink-barrier-aligned",
    "flink-barrier-buffer", "flink-barrier-tracker", "flink-cdc-json", "flink-examples",
    "flink-lookup-join", "flink-merging-window-set", "flink-programs", "flink-sql-itcase",
    "flink-sql-ordinary", "flink-sql-window-operator", "flink-temporal-join", "flink-timers",
    "flink-trigger", "flink-watermark-valve", "flink-window-assigner", "flink-window-operator", "risingwave-cdc-json",
    "risingwave-nexmark", "risingwave-over", "risingwave-slt", "spark-streaming", "storm-window",
}  # fmt: skip
"""The suites that are to run today. Those of operators that are still to come lie beside them, and may be refused or
fail: a suite is added here together with the operators that it judges."""

_WHOLE = {"flink-lookup-join"}
"""Large suites of which every case runs, because tests say what comes of each."""

_SMALL, _LEAST = 12, 3


def files_of(*suites: str) -> list[Path]:
    """The case files of some suites; none where the cases are not at hand."""
    return [path for suite in suites if (PEERS / suite).is_dir() for path in case_files(PEERS / suite)]


def due_files() -> list[Path]:
    """All cases of the suites that are due."""
    return files_of(*sorted(DUE))


def files_to_run() -> list[Path]:
    """The cases that tests run: of suites with more than ``_SMALL`` in SQL, ``_LEAST`` and a twentieth of those; below
    SQL, where no case needs Spark, all."""
    due = due_files()
    if ALL:
        return due
    in_sql: dict[str, list[Path]] = defaultdict(list)
    for path in due:
        if _is_in_sql(path):
            in_sql[path.relative_to(PEERS).parts[0]].append(path)
    left_out = {path for suite, paths in in_sql.items() for path in _left_out(suite, paths)}
    return [path for path in due if path not in left_out]


def _is_in_sql(path: Path) -> bool:
    return "script" in json.loads(path.read_text(encoding="utf-8"))


def _left_out(suite: str, paths: list[Path]) -> list[Path]:
    """All but a sample, which goes by names: a new case takes the place of one old case at most."""
    if suite in _WHOLE or len(paths) <= _SMALL:
        return []
    return sorted(paths, key=_checksum)[_LEAST + len(paths) // 20 :]


def _checksum(path: Path) -> int:
    return zlib.crc32(path.relative_to(PEERS).as_posix().encode())
