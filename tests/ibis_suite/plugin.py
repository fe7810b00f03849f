"""What Ibis's tests for Flink meet in place of Flink: our backend, our errors, and tables of ours.

Loaded by pytest before Ibis's conftest files. Tests that compare SQL with Flink's get a comparison of plans.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import ibis
import ibis.backends.tests.errors
import ibis.common.exceptions as com
import ibis.expr.operations as ops
import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.ibis.backend import Backend
from sqlstream.ibis.datatypes import SqlStreamType
from tests.ibis_suite.rows import write_tables

_OURS = (SqlStreamError, com.UnsupportedOperationError)


def _row(*values: Any) -> tuple[Any, ...]:
    """``pyflink.common.types.Row`` of values, or of rows, as our rows are."""
    return tuple(_plain(value) for value in values)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _stand_in_for_flink() -> None:
    for name in ("pyflink", "pyflink.common", "pyflink.table", "pyflink.util", "pyflink.java_gateway"):
        sys.modules[name] = MagicMock()
    sys.modules["pyflink.common.types"] = SimpleNamespace(Row=_row)  # type: ignore[assignment]
    sys.modules["pyflink.util.exceptions"] = SimpleNamespace(TableException=_OURS)  # type: ignore[assignment]
    sys.modules["ibis.backends.flink.datatypes"] = SimpleNamespace(FlinkType=SqlStreamType)  # type: ignore[assignment]
    ibis.backends.tests.errors.Py4JJavaError = _OURS
    ibis.flink = SimpleNamespace(connect=lambda environment, **options: _connected())


def _connected() -> Backend:
    return Backend().connect(spark="local[2]")  # type: ignore[no-any-return]


_stand_in_for_flink()


_COMPARED: Counter[str] = Counter()


def _data_dir() -> Path:
    from ibis.backends.conftest import TEST_TABLES  # pytest has loaded it

    folder = Path(tempfile.mkdtemp(prefix="ibis-suite-")) / "ibis-testing-data"
    write_tables(folder, TEST_TABLES)
    return folder


def _assert_sql(con: Backend, snapshot: Any) -> Callable[..., None]:
    """In place of Ibis's fixture: our SQL is that of the snapshot, or our planner makes the same of both."""

    def checker(expr: Any, file_name: str = "out.sql") -> None:
        ours = con.compile(expr, pretty=True)
        theirs = (Path(snapshot.snapshot_dir) / file_name).read_text(encoding="utf-8")
        if ours == theirs:
            _COMPARED["the same text"] += 1
            return
        if "table" not in con.list_tables():
            (table,) = expr.op().find(ops.UnboundTable)
            options = {"connector": "filesystem", "path": "nowhere", "format": "json"}
            con.create_table("table", schema=table.schema, tbl_properties=options)
        assert con.session.explain(ours) == con.session.explain(theirs), ours
        _COMPARED["the same plan"] += 1

    return checker


_REPLACED: dict[str, Callable[..., Any]] = {"data_dir": _data_dir, "assert_sql": _assert_sql}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Replaces fixtures of Ibis's conftest files, which hide those of plugins."""
    for item in session.items:
        for name, function in _REPLACED.items():
            for definition in session._fixturemanager.getfixturedefs(name, item) or ():
                definition.func = function  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how SQL was compared."""
    for how, count in _COMPARED.items():
        terminalreporter.write_line(f"SQL of snapshots: {count} with {how}")
