"""Aggregate calls taken apart into columns and a call over their names."""

from __future__ import annotations

import importlib
import pickle
import sys

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from sqlstream.errors import UnsupportedError
from sqlstream.grammar import parse_query
from sqlstream.planner.lowering.columnar.groups import SplitCall, split_call
from sqlstream.types import BIGINT, STRING
from sqlstream.udfs.functions import Function, FunctionKind


class Runtime:
    """One user's aggregate, ``total``, of a BIGINT."""

    def function(self, name: str) -> Function | None:
        if name.lower() != "total":
            return None
        return Function("total", "m:Total", FunctionKind.AGGREGATE, STRING, (("value", BIGINT),), 1, 1)

    def implementation(self, function: Function) -> object:
        return Runtime


def split(text: str, result: pa.DataType | None = None) -> SplitCall:
    (call,) = parse_query(f"SELECT {text}").expressions
    return split_call("r", call, result or pa.int64(), Runtime())  # type: ignore[arg-type]


def columns(text: str) -> list[str]:
    return [expression.sql("spark") for _, expression in split(text).columns]


def test_aggregates_of_users_travel_by_value(monkeypatch, tmp_path):
    """Workers need not have the module that the user wrote them in."""
    tmp_path.joinpath("of_a_user.py").write_text("class Total:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    user = importlib.import_module("of_a_user")
    monkeypatch.setattr(Runtime, "implementation", lambda *_: user.Total)
    shipped = cloudpickle.dumps(split("total(x)").call)
    monkeypatch.undo()
    del sys.modules["of_a_user"]
    assert pickle.loads(shipped).implementation.__name__ == "Total"


def test_arguments_filters_and_orderings_become_columns():
    actual = split("LISTAGG(s, ', ') WITHIN GROUP (ORDER BY t DESC, u NULLS LAST) FILTER (WHERE p > 1)", pa.string())
    assert [e.sql("spark") for _, e in actual.columns] == ["CAST(s AS STRING)", "p > 1", "t", "u"]
    value, condition, first, second = (name for name, _ in actual.columns)
    assert (actual.call.arguments, actual.call.filter, actual.call.constants) == ((value,), condition, (", ",))
    assert [(o.column, o.descending, o.nulls_first) for o in actual.call.order] == [
        (first, True, False),
        (second, False, False),
    ]


def test_equal_expressions_have_equal_names():
    assert split("SUM(price * 2)").columns == split("AVG(price * 2) FILTER (WHERE TRUE)").columns[:1]
    assert split("CORR(x, x)").call.arguments[0] == split("MAX(x)").call.arguments[0]
    assert len(columns("CORR(x, x)")) == 1


def test_counts_of_rows_need_no_column():
    assert columns("COUNT(*)") == columns("COUNT(1)") == []
    assert columns("COUNT(x, y)") == ["x", "y"]
    assert split("COUNT(DISTINCT x)").call.distinct


def test_constants_stay_in_the_call():
    assert split("PERCENTILE(x, ARRAY(0.5, 0.9))").call.constants == ((0.5, 0.9),)
    assert split("PERCENTILE_DISC(0.4) WITHIN GROUP (ORDER BY x DESC)").call.constants == (0.4,)
    with pytest.raises(UnsupportedError, match='SS395: an argument of "percentile" must be a constant, not p'):
        split("PERCENTILE(x, p)")


@pytest.mark.parametrize("text", ["FIRST(x, TRUE)", "ANY_VALUE(x) IGNORE NULLS", "LAST_VALUE(x, true)"])
def test_nulls_are_ignored_on_demand(text):
    assert split(text).call.ignore_nulls
    assert columns(text) == ["x"]


def test_nulls_are_respected_on_demand():
    call = split("ARRAY_AGG(DISTINCT x) FILTER (WHERE p) RESPECT NULLS").call
    assert call.respect_nulls and call.distinct and not call.ignore_nulls
    assert not split("COLLECT_LIST(x)").call.respect_nulls


def test_distinct_counts_are_estimated_from_the_hash_of_spark():
    assert columns("APPROX_COUNT_DISTINCT(x)") == ["CASE WHEN NOT x IS NULL THEN XXHASH64(x) END"]


def test_arguments_of_users_functions_are_cast():
    actual = split("TOTAL(DISTINCT x)", pa.string())
    assert [e.sql("spark") for _, e in actual.columns] == ["CAST(x AS BIGINT)"]
    assert actual.call.implementation is Runtime
    assert actual.call.distinct
