"""What Ibis's tests for Flink meet in place of Flink: our backend, our errors, PyFlink's rows, and tables of ours.

Loaded by pytest before Ibis's conftest files. Tests that compare SQL with Flink's get a comparison of plans. What fails
is what docs/ibis.md says, no more and no less.
"""

from __future__ import annotations

import re
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
from tests.ibis_suite.argued import EXPECTED_BY_IBIS, PAGE, argued, counts
from tests.ibis_suite.rows import write_tables

_OURS = (SqlStreamError, com.UnsupportedOperationError)


class _Row:
    """``pyflink.common.types.Row``, which takes one list for its values, as that does."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


def _as_flink(value: Any) -> Any:
    if isinstance(value, dict):
        return _Row(*map(_as_flink, value.values()))
    return [*map(_as_flink, value)] if isinstance(value, list) else value


class _Connection(Backend):
    """Our backend, whose ``raw_sql`` returns what has ``collect()``, as PyFlink's TableResult has."""

    def raw_sql(self, query: Any) -> Any:
        result = super().raw_sql(query)
        return SimpleNamespace(collect=lambda: (_Row(*map(_as_flink, row)) for row in result))  # type: ignore[union-attr]


def _stand_in_for_flink() -> None:
    for name in ("pyflink", "pyflink.common", "pyflink.table", "pyflink.util", "pyflink.java_gateway"):
        sys.modules[name] = MagicMock()
    sys.modules["pyflink.common.types"] = SimpleNamespace(Row=_Row)  # type: ignore[assignment]
    sys.modules["pyflink.util.exceptions"] = SimpleNamespace(TableException=_OURS)  # type: ignore[assignment]
    sys.modules["ibis.backends.flink.datatypes"] = SimpleNamespace(FlinkType=SqlStreamType)  # type: ignore[assignment]
    ibis.backends.tests.errors.Py4JJavaError = _OURS
    ibis.flink = SimpleNamespace(connect=lambda environment, **options: _connected())


def _connected() -> Backend:
    return _Connection().connect(spark="local[2]")  # type: ignore[no-any-return]


_stand_in_for_flink()


_COMPARED: Counter[str] = Counter()
_WRONG: list[str] = []
_ALL = 100
"""The tests of Ibis's folder: fewer are a selection, whose counts say nothing."""


def _data_dir() -> Path:
    from ibis.backends.conftest import TEST_TABLES  # pytest has loaded it

    folder = Path(tempfile.mkdtemp(prefix="ibis-suite-")) / "ibis-testing-data"
    write_tables(folder, TEST_TABLES)
    return folder


def _assert_sql(con: Backend, snapshot: Any) -> Callable[..., None]:
    """In place of Ibis's fixture: our SQL is that of the snapshot, or our planner makes the same of both. Flink's
    TIMESTAMP has no time zone, as our TIMESTAMP_NTZ.
    """

    def checker(expr: Any, file_name: str = "out.sql") -> None:
        ours = con.compile(expr, pretty=True)
        theirs = (Path(snapshot.snapshot_dir) / file_name).read_text(encoding="utf-8")
        theirs = re.sub(r"\bTIMESTAMP\b(?!_)", "TIMESTAMP_NTZ", theirs)
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


def _csv_source_configs() -> Callable[[str], dict[str, str]]:
    """As Ibis's, with a directory for each test: rows that one writes are not in the way of another."""
    folder = tempfile.mkdtemp(prefix="ibis-suite-")
    return lambda name: {
        "connector": "filesystem", "path": f"{folder}/{name}.csv", "format": "csv", "csv.ignore-parse-errors": "true",
    }  # fmt: skip


_REPLACED: dict[str, Callable[..., Any]] = {
    "data_dir": _data_dir,
    "assert_sql": _assert_sql,
    "csv_source_configs": _csv_source_configs,
}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Replaces fixtures of Ibis's conftest files, which hide those of plugins."""
    for item in session.items:
        for name, function in _REPLACED.items():
            for definition in session._fixturemanager.getfixturedefs(name, item) or ():
                definition.func = function  # type: ignore[misc]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that the page argues must fail, and so must those that Ibis expects to fail, here too; all others must
    pass, also where Ibis expects Flink to fail.
    """
    reasons = argued(PAGE.read_text(encoding="utf-8"))
    for item in items:
        name = _name(item)
        if name in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))
            continue
        if name not in EXPECTED_BY_IBIS:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name not in ("xfail", "notyet")]


def _name(item: pytest.Item) -> str:
    return f"{item.path.name}::{item.name}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A whole run fails where its counts are not those of the page, which names tests that there are."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if session.config.option.keyword or len(session.items) < _ALL:
        return
    names = {_name(item) for item in session.items}
    page = PAGE.read_text(encoding="utf-8")
    unknown = sorted(set(argued(page)) - names) + sorted(EXPECTED_BY_IBIS - names)
    found = tuple(len(reporter.stats.get(outcome, ())) for outcome in ("passed", "xfailed"))
    for wrong in (
        unknown and f"docs/ibis.md names tests that Ibis has not: {unknown}",
        found != counts(page) and f"docs/ibis.md has other counts than these {found}",
    ):
        if wrong:
            _WRONG.append(wrong)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how SQL was compared, and what of docs/ibis.md is not so."""
    for how, count in _COMPARED.items():
        terminalreporter.write_line(f"SQL of snapshots: {count} with {how}")
    for wrong in _WRONG:
        terminalreporter.write_line(wrong, red=True)
