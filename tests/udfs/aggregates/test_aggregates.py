"""Counts, sums, extremes and averages; what holds for all aggregates."""

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError, UnsupportedError
from sqlstream.functions.builtin import Aggregate, BuiltinKind
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.types import DataType
from sqlstream.udfs.aggregates import AggregateCall, Aggregates, supports
from sqlstream.udfs.columnar import FunctionError


def computed(rows: dict[str, pa.Array], groups: list[int], count: int, *calls: AggregateCall) -> list[dict]:
    table = pa.table(rows)
    aggregates = Aggregates(calls, table.schema)
    lifted = aggregates.lift(table, np.array(groups, np.int64), count)
    assert lifted.schema == aggregates.accumulators
    results: list[dict] = aggregates.finish(lifted).to_pylist()
    return results


def call(function: str, *arguments: str, result: pa.DataType | None = None, **options) -> AggregateCall:
    return AggregateCall("r", function, arguments, result or pa.int64(), **options)


def test_nulls_are_skipped_and_empty_groups_have_no_sum():
    rows = {"x": pa.array([1, None, 3, None])}
    assert computed(rows, [0, 0, 0, 1], 3, call("sum", "x")) == [{"r": 4}, {"r": None}, {"r": None}]
    assert computed(rows, [0, 0, 0, 1], 3, call("count", "x")) == [{"r": 2}, {"r": 0}, {"r": 0}]
    assert computed(rows, [0, 0, 0, 1], 3, call("count")) == [{"r": 3}, {"r": 1}, {"r": 0}]


def test_equal_accumulators_are_kept_once():
    schema = pa.schema([("x", pa.int32()), ("y", pa.int64())])
    calls = (
        call("sum", "x"),
        AggregateCall("a", "avg", ("x",), pa.float64()),
        AggregateCall("n", "count", ("x",), pa.int64()),
    )
    assert len(Aggregates(calls, schema).accumulators) == 2


def test_sums_of_bigint_overflow_only_where_they_leave_the_range():
    largest = 2**63 - 1
    rows = {"x": pa.array([largest, -1, 1, -largest, -1])}
    assert computed(rows, [0, 0, 0, 1, 1], 2, call("sum", "x")) == [{"r": largest}, {"r": -largest - 1}]
    with pytest.raises(ExecutionError, match="SS431: SUM overflows the type BIGINT"):
        computed(rows, [0, 1, 0, 1, 1], 2, call("sum", "x"))


def test_no_calls_still_have_a_row_per_group():
    table = pa.table({"x": [1, 2]})
    aggregates = Aggregates((), table.schema)
    lifted = aggregates.lift(table, np.array([0, 1]), 3)
    assert aggregates.finish(aggregates.merge(lifted, np.array([0, 1, 1]), 2)).num_rows == 2


def test_unknown_functions_are_refused_by_name():
    with pytest.raises(UnsupportedError, match='SS395: aggregate function "histogram_numeric" is not executed'):
        computed({"x": pa.array([1])}, [0], 1, call("histogram_numeric", "x"))


# --- refusals and options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (call("min", "m"), 'aggregate function "min" is not executed for the type MAP<STRING, INT>'),
        (call("sum", "s"), 'aggregate function "sum" is not executed for the type STRING'),
        (call("max_by", "x", "x", "x"), 'aggregate function "max_by" is executed with 2 columns, not 3'),
        (
            call("percentile", "x", constants=(1.5,)),
            'aggregate function "percentile" needs percentages between 0 and 1',
        ),
        (call("approx_count_distinct", "x", constants=(0.9,)), "is not executed with the error 0.9"),
    ],
)
def test_what_is_not_executed_is_refused_by_name(wrong, message):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string()), ("m", pa.map_(pa.string(), pa.int32()))])
    with pytest.raises(UnsupportedError, match=message):
        Aggregates((wrong,), schema)


def test_all_that_is_supported_is_an_aggregate_of_spark():
    assert supports("first_value") and supports("mean") and not supports("kll_sketch_agg_bigint")
    aggregates = {name for name, function in FUNCTIONS.items() if function.kind is BuiltinKind.AGGREGATE}
    assert {name for name in aggregates if supports(name)} >= {"any", "approx_percentile", "regr_r2", "mode"}


TYPES = (
    *map(DataType, ("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIME")),
    *map(DataType, ("TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL", "VARIANT")),
    DataType("DECIMAL", (10, 2)),
    DataType("ARRAY", (DataType("INT"),)),
    DataType("MAP", (DataType("STRING"), DataType("INT"))),
    DataType("STRUCT", (("x", DataType("INT")),)),
)
CONSTANTS = dict.fromkeys(("percentile", "percentile_approx", "percentile_cont", "percentile_disc"), (0.5,))


def test_the_catalogue_says_what_kernels_take():
    aggregates = [f for f in FUNCTIONS.values() if isinstance(f, Aggregate) and f.alias_of is None]
    assert {f.name for f in aggregates if f.kernel is not None} == {f.name for f in aggregates if supports(f.name)}
    for function in aggregates:
        for place, taken in enumerate(function.kernel or ()):
            for kind in TYPES:
                count = max(function.columns or 1, place + 1)
                given = ["BIGINT"] * count if function.kernel != (frozenset({"BOOLEAN"}),) else ["BOOLEAN"]
                kinds = [kind if i == place else DataType(name) for i, name in enumerate(given)]
                schema = pa.schema([(f"c{i}", one.to_arrow()) for i, one in enumerate(kinds)])
                tried = call(function.name, *schema.names, constants=CONSTANTS.get(function.name, ()))
                takes = taken is None or kind.name in taken
                with nullcontext() if takes else pytest.raises(UnsupportedError, match="is not executed for the type"):
                    Aggregates((tried,), schema)


def test_a_failing_aggregate_of_a_user_is_named():
    class Broken:
        def create(self) -> int:
            return 0

        def accumulate(self, state: int, value: int) -> int:
            return state // value

    with pytest.raises(FunctionError, match='SS411: function "broken" failed: ZeroDivisionError'):
        computed({"x": pa.array([0])}, [0], 1, call("broken", "x", implementation=Broken))


# --- extremes and averages ------------------------------------------------------------------------------------


def test_of_zeros_with_two_signs_the_first_stays():
    rows = {"x": pa.array([0.0, -0.0, -0.0, 0.0])}
    for function in ("min", "max"):
        actual = computed(rows, [0, 0, 1, 1], 2, call(function, "x", result=pa.float64()))
        assert [str(r["r"]) for r in actual] == ["0.0", "-0.0"]


def test_averages_of_bigint_do_not_overflow():
    rows = {"x": pa.array([2**63 - 1, 2**63 - 1])}
    assert computed(rows, [0, 0], 1, call("avg", "x", result=pa.float64())) == [{"r": float(2**63)}]


def test_equal_numbers_have_no_variance():
    aggregates = Aggregates((call("skewness", "x", result=pa.float64()),), pa.schema([("x", pa.float64())]))
    part = aggregates.lift(pa.table({"x": [0.1] * 7}), np.zeros(7, np.int64), 1)
    merged = aggregates.merge(pa.concat_tables([part] * 3), np.zeros(3, np.int64), 1)
    assert aggregates.finish(merged).to_pylist() == [{"r": None}]
