"""Every aggregate against Spark's own, over rows with NULLs, NaN, negative zeros and extreme values."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.grammar import parse_query
from sqlstream.planner.lowering.columnar.groups import SplitCall, split_call
from sqlstream.types import from_spark
from sqlstream.udfs.aggregates import Aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([
    ("g", pa.int32()),
    ("i", pa.int32()),
    ("l", pa.int64()),
    ("h", pa.int16()),
    ("f", pa.float64()),
    ("r", pa.float32()),
    ("d", pa.decimal128(10, 2)),
    ("w", pa.decimal128(34, 4)),
    ("s", pa.string()),
    ("t", pa.timestamp("us", "UTC")),
    ("a", pa.date32()),
    ("b", pa.bool_()),
    ("y", pa.binary()),
    ("v", pa.duration("us")),
])  # fmt: skip

NUMBERS = "ilhfrdw"
ALL = "ilhfrdwstabyv"
ORDERED = {
    **dict.fromkeys(("count", "min", "max", "first", "last_value", "collect_list", "array_agg"), ALL),
    **dict.fromkeys(("sum", "avg", "mean"), NUMBERS + "v"),
    **dict.fromkeys(("var_pop", "var_samp", "variance", "stddev", "stddev_pop", "std", "skewness", "kurtosis"), "ihrd"),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "count_if"), "b"),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), "ilh"),
    "median": "ildf",
}
TEXTS = [
    *(f"{function}({column})" for function, columns in ORDERED.items() for column in columns),
    *(f"sort_array(collect_set({c}))" for c in "ilhdstaby"),
    *(f"approx_count_distinct({c})" for c in ALL),
    *(f"percentile({c}, 0.3)" for c in "ihdf"),
    *(f"percentile({c}, array(0.25, 0.5, 1))" for c in "id"),
    *(f"percentile({c}, array(0.0, 0.3, 0.5, 1.0), {times})" for c in "if" for times in ("abs(h % 4)", "3")),
    *(f"percentile_approx({c}, 0.3)" for c in "ilhfdta"),
    *(f"approx_percentile({c}, array(0.0, 0.5, 1.0), 1000)" for c in "if"),
    *(f"{f}(0.4) WITHIN GROUP (ORDER BY {c})" for f in ("percentile_cont", "percentile_disc") for c in ("i", "f DESC")),
    *(f"{f}({v}, {k})" for f in ("min_by", "max_by") for v, k in ("si", "if", "fs", "tl", "bt", "sd")),
    *(f"{f}({p})" for f in ("corr", "covar_pop", "covar_samp") for p in ("i, h", "r, i", "h, h")),
    *(f"regr_{f}(i, h)" for f in ("count", "avgx", "avgy", "sxx", "syy", "sxy", "slope", "intercept", "r2")),
    *(f"{f}({c}, true)" for f in ("first_value", "last", "any_value") for c in "isf"),
    *(f"{f} FILTER (WHERE i > 0)" for f in ("count(*)", "sum(d)", "min(s)", "avg(l)", "first(h)")),
    "count(*)",
    "count(1)",
    "count(i, s)",
    "mode(i, true)",
    "mode() WITHIN GROUP (ORDER BY s DESC)",
    *(f"{f}({c}) RESPECT NULLS" for f in ("array_agg", "collect_list") for c in "isdy"),
    *(f"{f}(s) FILTER (WHERE i > 0) {n} NULLS" for f in ("array_agg", "last_value") for n in ("IGNORE", "RESPECT")),
    *(f"sort_array(collect_set({c}) RESPECT NULLS)" for c in "is"),
    "listagg(s, '')",
    "listagg(s, '; ')",
    "string_agg(y)",
    "string_agg(s, ',') WITHIN GROUP (ORDER BY i DESC, l)",
    "listagg(s, ',') WITHIN GROUP (ORDER BY f, t NULLS LAST, l)",
    "sum(h + 1)",
    "sum(CASE WHEN b THEN d END)",
]
DISTINCT = [
    *(f"count(DISTINCT {c})" for c in (*ALL, "i, s")),
    *(f"{f}(DISTINCT {c})" for f in ("sum", "avg") for c in "ilhd"),
    *(f"sort_array({f}(DISTINCT {c}))" for f in ("collect_list", "array_agg") for c in "is"),
    "sort_array(array_agg(DISTINCT i) RESPECT NULLS)",
    "count(DISTINCT s) FILTER (WHERE i > 0)",
]
# Spark 4.3 cannot plan this one beside others with DISTINCT.
ORDERED_DISTINCT = ["listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s DESC)"]


def rows() -> list[dict[str, Any]]:
    """Group 0: many rows; 1: NULLs only; 2: special numbers; 3: extreme values; 4: one row."""
    rng = random.Random(5)
    start = datetime(2020, 2, 28, tzinfo=UTC)

    def ordinary(group: int) -> dict[str, Any]:
        row = {
            "i": rng.randint(-9, 9),
            "l": rng.randint(-(2**40), 2**40),
            "h": rng.randint(-300, 300),
            "f": rng.choice([0.0, -0.0, 1.5, math.nan, -2.25, rng.random()]),
            "r": rng.choice([0.5, 2.0, -7.25]),
            "d": Decimal(rng.randint(-9999, 9999)).scaleb(-2),
            "w": Decimal(rng.randint(-(10**20), 10**20)).scaleb(-4),
            "s": rng.choice(["", "a", "b", "ab", "é", "𝄞", "\uffff"]),
            "t": start + timedelta(seconds=rng.randint(-(10**9), 10**9), microseconds=rng.randint(0, 999999)),
            "a": date(2020, 2, 28) + timedelta(days=rng.randint(-20000, 20000)),
            "b": rng.random() < 0.5,
            "y": bytes(rng.choices(b"\x00\x7f\x80\xff", k=2)),
            "v": timedelta(microseconds=rng.randint(-(10**12), 10**12)),
        }
        return {"g": group, **{name: None if rng.random() < 0.2 else value for name, value in row.items()}}

    def only(group: int, **values: Any) -> dict[str, Any]:
        return {**dict.fromkeys(SCHEMA.names), "g": group, **values}

    specials = [-0.0, 0.0, math.inf, math.nan, -0.0, -math.inf]
    greatest: dict[str, Any] = {"i": 2**31 - 1, "l": 2**63 - 1, "h": 2**15 - 1, "d": Decimal("99999999.99")}
    least = {k: -v - (0 if k == "d" else 1) for k, v in greatest.items()}
    greatest["w"] = Decimal("9" * 29 + ".9999")
    least["w"] = -greatest["w"]
    reals = [1e300, -1e300, 5e-324, 0.1]
    bounds = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    return [
        *(ordinary(0) for _ in range(60)),
        *(only(1) for _ in range(3)),
        *(only(2, f=f, r=r, s="x") for f, r in zip(specials, [1.0, 1.0, 3.0, 4.0, 5.0, -1.0], strict=True)),
        *(only(3, **v, t=t, a=t.date(), f=f) for v, t, f in zip([greatest, least] * 2, bounds * 2, reals, strict=True)),
        ordinary(4),
    ]


class _NoFunctions:
    def function(self, name: str) -> None:
        return None


def split(text: str, name: str, result: pa.DataType) -> SplitCall:
    (call,) = parse_query(f"SELECT {text[len('sort_array(') : -1] if 'sort_array' in text else text}").expressions
    return split_call(name, call, result, _NoFunctions())  # type: ignore[arg-type]


@pytest.mark.spark
def test_results_are_those_of_spark(spark: SparkSession):
    data = spark.createDataFrame(pa.Table.from_pylist(rows(), SCHEMA)).coalesce(1)
    wrong = [line for texts in (TEXTS, DISTINCT, ORDERED_DISTINCT) for line in _differences(data, texts)]
    assert not wrong, "\n".join(wrong)


def _differences(data: DataFrame, texts: list[str]) -> list[str]:
    from pyspark.sql import functions as F

    results = data.groupBy("g").agg(*(F.expr(text).alias(str(n)) for n, text in enumerate(texts))).orderBy("g")
    types = [from_spark(f.dataType.jsonValue()).to_arrow() for f in results.schema.fields[1:]]
    calls = [split(text, str(n), type_) for n, (text, type_) in enumerate(zip(texts, types, strict=True))]
    actual, expected, wrong = _computed(data, calls), results.toArrow(), []
    for n, text in enumerate(texts):
        pairs = zip(actual.column(str(n)).to_pylist(), expected.column(n + 1).to_pylist(), strict=True)
        for group, (ours, theirs) in enumerate(pairs):
            if not _same(_in_order(ours) if text.startswith("sort_array") and ours else ours, theirs):
                wrong.append(f"{text} of group {group}: {ours!r}, Spark: {theirs!r}")
    return wrong


def _in_order(values: list[Any]) -> list[Any]:
    """As SORT_ARRAY sorts: NULLs first."""
    return sorted(values, key=lambda value: (value is not None, value))


def _computed(data: DataFrame, calls: list[SplitCall]) -> pa.Table:
    """The results of our aggregates over two halves of the rows."""
    columns = {name: expression.sql("spark") for split in calls for name, expression in split.columns}
    table = data.selectExpr("g", *(f"{text} AS {name}" for name, text in columns.items())).toArrow()
    aggregates = Aggregates(tuple(split.call for split in calls), table.schema)
    groups = table.column("g").to_numpy().astype(np.int64)
    half, count = 31, int(groups.max()) + 1
    parts = [slice(0, half), slice(half, len(groups))]
    lifted = [aggregates.lift(table.slice(p.start, p.stop - p.start), groups[p], count) for p in parts]
    return aggregates.finish(aggregates.merge(pa.concat_tables(lifted), np.tile(np.arange(count), 2), count))


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return (
            ours == theirs
            or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
            or (math.isnan(ours) and math.isnan(theirs))
        )
    return bool(ours == theirs) and type(ours) is type(theirs)
