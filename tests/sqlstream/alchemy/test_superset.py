"""What Superset is told of the dialect, with stand-ins for the few names of Superset's that it uses.

``make check-superset`` asks Superset itself.
"""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from types import ModuleType, SimpleNamespace

import pytest
import sqlalchemy as sa
import sqlglot

import sqlstream

_GRAINS = [
    "SECOND", "FIVE_SECONDS", "THIRTY_SECONDS", "MINUTE", "FIVE_MINUTES", "TEN_MINUTES", "FIFTEEN_MINUTES",
    "THIRTY_MINUTES", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR",
]  # fmt: skip
_TYPES = {"DATE": sa.DATE(), "TIMESTAMP_LTZ": sa.TIMESTAMP(), "TIMESTAMP_NTZ": sa.TIMESTAMP(), "STRING": sa.String()}


class _Spec:
    @classmethod
    def get_sqla_column_type(cls, name):
        return _TYPES[name]


@pytest.fixture
def spec(monkeypatch):
    """The class, and the dialects that Superset parses with."""
    dialects: dict[str, object] = {}
    modules: dict[str, dict[str, object]] = {
        "superset": {},
        "superset.constants": {"TimeGrain": SimpleNamespace(**{grain: grain for grain in _GRAINS})},
        "superset.db_engine_specs": {},
        "superset.db_engine_specs.base": {"BaseEngineSpec": _Spec},
        "superset.sql": {},
        "superset.sql.parse": {"SQLGLOT_DIALECTS": dialects},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "sqlstream.sqlalchemy.superset", raising=False)
    module = importlib.import_module("sqlstream.sqlalchemy.superset")
    yield module.SqlStreamEngineSpec, dialects
    sys.modules.pop("sqlstream.sqlalchemy.superset")


def test_times_are_cut_and_written_in_our_words(spec):
    engine_spec, _ = spec
    cut = {grain: text.format(col="at") for grain, text in engine_spec._time_grain_expressions.items()}
    assert cut["MINUTE"] == "DATE_TRUNC('MINUTE', at)" and set(cut) == {None, *_GRAINS}
    at = datetime(2026, 1, 2, 3, 4, 5)
    written = {name: engine_spec.convert_dttm(name, at) for name in _TYPES}
    assert written == {
        "DATE": "DATE '2026-01-02'",
        "TIMESTAMP_LTZ": "TIMESTAMP '2026-01-02 03:04:05.000000'",
        "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2026-01-02 03:04:05.000000'",
        "STRING": None,
    }
    epochs = (engine_spec.epoch_to_dttm().format(col="n"), engine_spec.epoch_ms_to_dttm().format(col="n"))
    values = [*cut.values(), *epochs, *(text for text in written.values() if text)]
    query = f"SELECT {', '.join(f'{value} AS c{n}' for n, value in enumerate(values))} FROM t"
    with sqlstream.connect() as session:
        assert not session.check(f"CREATE TABLE t (at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory'); {query}")


def test_superset_parses_our_sql_as_ours(spec):
    _, dialects = spec
    text = "SELECT `SUM(n)`, 'a' FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE) LIMIT 3"
    dialect = dialects["sqlstream"]
    assert sqlglot.parse_one(text, dialect=dialect).sql(dialect=dialect) == text
