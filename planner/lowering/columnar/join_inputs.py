"""The columns that the kernel of a join reads of either side, and the fields of the plan of what it emits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from sqlstream.planner.join_conditions import PairCondition, pair_condition
from sqlstream.planner.joining import Join
from sqlstream.planner.lowering.columnar.inputs import key, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.nodes import Field
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.joins.condition import Condition
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND

_SIDES = ("left", "right")
_NOT_HASHED = (ArrayType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class JoinInput:
    """A side of a join as its kernel gets it: ``rows`` with KEY_HASH, the keys, and the fields under names that the
    other side does not have, ``passed``."""

    rows: DataFrame
    keys: tuple[str, ...]
    passed: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return kernel_schema(self.rows)


More = Callable[[int, DataFrame], Mapping[str, str]]
"""SQL texts over the rows of a port, by the names of the columns that kernels read beside keys and fields."""


def join_inputs(node: Join, step: Step, context: Context, more: More) -> list[JoinInput]:
    """Both sides, by port, with what the condition reads."""
    return [_input(node, port, context.lower(below), context, more) for port, below in enumerate(step.inputs)]


def condition_of(node: Join) -> Condition | None:
    """What kernels decide of the rest of ON."""
    found = _decided(node)
    return None if found is None else found.condition


def _decided(node: Join) -> PairCondition | None:
    if node.condition is None:
        return None
    return pair_condition(node.condition, node.left.schema, node.right.schema)


def _input(node: Join, port: int, rows: DataFrame, context: Context, more: More) -> JoinInput:
    decided = _decided(node)
    operands = {} if decided is None else {n: context.sql(e, rows) for n, e in decided.columns[port]}
    keys = tuple(f"__key_{i}" for i in range(len(node.equal)))
    values = [context.column((e.left, e.right)[port], rows) for e in node.equal]
    named = rows.select("*", *(value.alias(name) for name, value in zip(keys, values, strict=True)))
    by_key = (key(name, named.schema[name].dataType).alias(name) for name in keys)
    fields = [column(field.name).alias(own) for own, field in _places(node, port)]
    extra = [F.expr(text).alias(name) for name, text in {**operands, **more(port, rows)}.items()]
    kinds = [column(ROW_KIND)] if ROW_KIND in rows.columns else []
    projected = named.select(*by_key, *fields, *extra, *kinds, *passed_on(rows))
    return JoinInput(with_hash(node, projected, keys), keys, tuple(own for own, _ in _places(node, port)))


def with_hash(node: Join, rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """With KEY_HASH. Inserts with a NULL that equals nothing need not be in one place: other columns part them."""
    hashed = with_key_hash(rows, keys)
    unsafe = [column(name).isNull() for name, e in zip(keys, node.equal, strict=True) if not e.null_safe]
    others = [f.name for f in rows.schema if f.name not in keys and not isinstance(f.dataType, _NOT_HASHED)]
    if not unsafe or not others or ROW_KIND in rows.columns:
        return hashed
    spread = F.when(reduce(or_, unsafe), F.xxhash64(*map(column, others))).otherwise(column(KEY_HASH))
    return hashed.withColumn(KEY_HASH, spread)


def _places(node: Join, port: int) -> Iterator[tuple[str, Field]]:
    return ((f"__{_SIDES[port]}_{i}", field) for i, field in enumerate(node.inputs[port].schema))


def fields_of(node: Join, emitted: DataFrame) -> DataFrame:
    """What the kernel emits under the names of the node's schema."""
    sides = (0, 1) if node.kind.pairs else (0,)
    own = [column(name).alias(field.name) for port in sides for name, field in _places(node, port)]
    return emitted.select(*own, *hidden(emitted))
