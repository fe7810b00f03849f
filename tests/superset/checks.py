"""What is asked of Superset about one database, in the order in which somebody would who makes a chart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.superset.rest import Rest

_CHANGE_S = 180.0


@dataclass(frozen=True)
class Asked:
    """A database and a table of it: ``by`` is a column of a few values, ``sum`` a number that grows."""

    name: str
    url: str
    schema: str
    table: str
    by: str
    sum: str
    time: str
    queries: Sequence[str]


@dataclass
class Outcome:
    """``failed``: what did not go, with the reason."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    failed: bool = False

    @contextmanager
    def of(self, name: str) -> Iterator[list[str]]:
        """A row of the table: what the block adds to the list, or its error. Then others go on."""
        told: list[str] = []
        try:
            yield told
        except Exception as error:
            self.failed = True
            self.rows.append((name, "FAILED", f"{type(error).__name__}: {error}"))
        else:
            self.rows.append((name, "passed", "; ".join(told)))


@dataclass
class Made:
    """The numbers that Superset has given to what was made."""

    database: int = 0
    dataset: int = 0
    chart: int = 0


def check(rest: Rest, asked: Asked, outcome: Outcome) -> Made:
    made = Made()
    with outcome.of("adds the database") as told:
        made.database = _add(rest, asked, told)
    with outcome.of("lists schemas") as told:
        schemas = rest.get(f"/api/v1/database/{made.database}/schemas/")["result"]
        _require(asked.schema in schemas, schemas)
        told.append(", ".join(schemas))
    with outcome.of("lists tables") as told:
        listed = rest.get(f"/api/v1/database/{made.database}/tables/?q=(force:!t,schema_name:{quote(asked.schema)})")
        names = [f"{item['value']} ({item['type']})" for item in listed["result"]]
        _require(any(name.startswith(f"{asked.table} (") for name in names), names)
        told.append(", ".join(names))
    with outcome.of("shows the columns of one") as told:
        where = f"name={quote(asked.table)}&schema={quote(asked.schema)}"
        described = rest.get(f"/api/v1/database/{made.database}/table_metadata/?{where}")
        columns = {column["name"]: column["type"] for column in described["columns"]}
        _require({asked.by, asked.sum} <= set(columns), columns)
        told.append(", ".join(f"{name} {kind}" for name, kind in columns.items()))
    for sql in asked.queries:
        with outcome.of("SQL Lab runs a query") as told:
            told.append(_sql_lab(rest, asked, made, sql))
    with outcome.of("makes a dataset") as told:
        told.append(_dataset(rest, asked, made))
    with outcome.of("makes a chart") as told:
        made.chart = _chart(rest, asked, made)
        told.append(f"bars, SUM({asked.sum}) by {asked.by}")
    with outcome.of("the chart's query changes") as told:
        told.append(_changes(lambda: _data(rest, made.chart)))
    with outcome.of("a chart's query by the minute") as told:
        told.append(_by_time(rest, asked, made))
    return made


def _require(holds: bool, said: object) -> None:
    if not holds:
        raise ValueError(f"not as expected: {said}")


def _add(rest: Rest, asked: Asked, told: list[str]) -> int:
    body = {"database_name": asked.name, "sqlalchemy_uri": asked.url}
    rest.post("/api/v1/database/test_connection/", body)
    made = rest.post("/api/v1/database/", {**body, "expose_in_sqllab": True})
    told.append(f"engine {made['result'].get('engine') or rest.get(_of('database', made['id']))['result']['backend']}")
    return int(made["id"])


def _of(kind: str, number: int) -> str:
    return f"/api/v1/{kind}/{number}"


def _sql_lab(rest: Rest, asked: Asked, made: Made, sql: str) -> str:
    query = {"database_id": made.database, "schema": asked.schema, "sql": sql, "queryLimit": 100}
    done = rest.post("/api/v1/sqllab/execute/", {**query, "client_id": str(time.time_ns())[-11:], "runAsync": False})
    _require(done["status"] == "success" and bool(done["data"]), done)
    return f"{len(done['data'])} rows of {', '.join(column['column_name'] for column in done['columns'])}"


def _dataset(rest: Rest, asked: Asked, made: Made) -> str:
    body = {"database": made.database, "schema": asked.schema, "table_name": asked.table}
    made.dataset = int(rest.post("/api/v1/dataset/", body)["id"])
    columns = rest.get(_of("dataset", made.dataset))["result"]["columns"]
    return ", ".join(
        f"{column['column_name']} {column['type']}{' (time)' if column['is_dttm'] else ''}" for column in columns
    )


def _chart(rest: Rest, asked: Asked, made: Made) -> int:
    """With the query that its page would ask, saved for those who ask the API for its data."""
    metric = {
        "expressionType": "SIMPLE", "column": {"column_name": asked.sum}, "aggregate": "SUM",
        "label": f"SUM({asked.sum})",
    }  # fmt: skip
    form = {
        "viz_type": "echarts_timeseries_bar", "datasource": f"{made.dataset}__table", "x_axis": asked.by,
        "metrics": [metric], "groupby": [], "row_limit": 100, "x_axis_sort": asked.by, "x_axis_sort_asc": True,
        "show_value": True, "y_axis_format": ",d", "adhoc_filters": [],
    }  # fmt: skip
    query = {
        "columns": [asked.by], "metrics": [metric], "orderby": [[asked.by, True]], "row_limit": 100, "filters": [],
    }  # fmt: skip
    context = {
        "datasource": {"id": made.dataset, "type": "table"}, "force": True, "queries": [query],
        "result_format": "json", "result_type": "full",
    }  # fmt: skip
    body = {
        "slice_name": f"{asked.sum} by {asked.by}, {asked.name}", "viz_type": form["viz_type"],
        "datasource_id": made.dataset, "datasource_type": "table", "params": json.dumps(form),
        "query_context": json.dumps(context),
    }  # fmt: skip
    return int(rest.post("/api/v1/chart/", body)["id"])


def _by_time(rest: Rest, asked: Asked, made: Made) -> str:
    """Superset cuts times and compares with some in the words of the database."""
    axis = {
        "columnType": "BASE_AXIS", "timeGrain": "PT1M", "sqlExpression": asked.time, "label": asked.time,
        "expressionType": "SQL",
    }  # fmt: skip
    count = {"expressionType": "SQL", "sqlExpression": f"MAX({asked.sum})", "label": "most"}
    query = {
        "columns": [axis], "metrics": [count], "row_limit": 100, "granularity": asked.time,
        "filters": [{"col": asked.time, "op": "TEMPORAL_RANGE", "val": "2020-01-01 : 2100-01-01"}],
    }  # fmt: skip
    body = {
        "datasource": {"id": made.dataset, "type": "table"}, "force": True, "queries": [query],
        "result_format": "json", "result_type": "full",
    }  # fmt: skip
    result = rest.post("/api/v1/chart/data", body)["result"][0]
    _require(bool(result["data"]), result)
    return _row(result["data"])


def _data(rest: Rest, chart: int) -> list[dict[str, Any]]:
    result = rest.get(f"/api/v1/chart/{chart}/data/?force=true")["result"][0]
    _require(bool(result["data"]), result)
    rows: list[dict[str, Any]] = result["data"]
    return rows


def _changes(data: Callable[[], list[dict[str, Any]]]) -> str:
    first, begun = data(), time.monotonic()
    while time.monotonic() < begun + _CHANGE_S:
        time.sleep(1)
        second = data()
        if second != first:
            return f"{_row(first)}, then {_row(second)} after {time.monotonic() - begun:.0f} s"
    raise TimeoutError(f"the same rows for {_CHANGE_S:.0f} s: {first}")


def _row(rows: list[dict[str, Any]]) -> str:
    return f"{len(rows)} rows, first {list(rows[0].values())}"
