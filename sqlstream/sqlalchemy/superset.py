"""What Apache Superset is told of the dialect: how it cuts times, writes them, and reads our SQL.

Superset finds it by its entry point (``superset.db_engine_specs``); nothing of the product imports it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import types
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec
from superset.sql.parse import SQLGLOT_DIALECTS

from sqlstream.grammar.dialect import SqlStream

_SECONDS = {
    TimeGrain.FIVE_SECONDS: 5, TimeGrain.THIRTY_SECONDS: 30, TimeGrain.FIVE_MINUTES: 300, TimeGrain.TEN_MINUTES: 600,
    TimeGrain.FIFTEEN_MINUTES: 900, TimeGrain.THIRTY_MINUTES: 1800,
}  # fmt: skip
_UNITS = {
    TimeGrain.SECOND: "SECOND", TimeGrain.MINUTE: "MINUTE", TimeGrain.HOUR: "HOUR", TimeGrain.DAY: "DAY",
    TimeGrain.WEEK: "WEEK", TimeGrain.MONTH: "MONTH", TimeGrain.QUARTER: "QUARTER", TimeGrain.YEAR: "YEAR",
}  # fmt: skip


class SqlStreamEngineSpec(BaseEngineSpec):  # type: ignore[misc] # Superset is in no environment of ours
    """Superset's support for databases with ``sqlstream://`` URLs."""

    engine = "sqlstream"
    engine_name = "sqlstream"
    default_driver = "session"
    sqlalchemy_uri_placeholder = "sqlstream:////folder/of/a/project"

    _time_grain_expressions: dict[str | None, str] = {  # noqa: RUF012 — declared by Superset
        None: "{col}",
        **{grain: f"DATE_TRUNC('{unit}', {{col}})" for grain, unit in _UNITS.items()},
        **{
            grain: f"TIMESTAMP_SECONDS(UNIX_SECONDS(CAST({{col}} AS TIMESTAMP)) DIV {seconds} * {seconds})"
            for grain, seconds in _SECONDS.items()
        },
    }

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """The SQL expression that converts seconds since 1970 to a timestamp."""
        return "TIMESTAMP_SECONDS({col})"

    @classmethod
    def epoch_ms_to_dttm(cls) -> str:
        """The SQL expression that converts milliseconds since 1970 to a timestamp."""
        return "TIMESTAMP_MILLIS({col})"

    @classmethod
    def convert_dttm(cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:
        """The literal of a time for comparison with a column of this type; None for other types."""
        kind = cls.get_sqla_column_type(target_type)
        if isinstance(kind, types.Date):
            return f"DATE '{dttm.date().isoformat()}'"
        if isinstance(kind, types.TIMESTAMP):
            word = "TIMESTAMP_NTZ" if target_type.upper() == "TIMESTAMP_NTZ" else "TIMESTAMP"
            return f"{word} '{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None


# Superset parses what is asked, to find tables and to put limits in: as what it is.
SQLGLOT_DIALECTS[SqlStreamEngineSpec.engine] = SqlStream
