"""Predicates and conditional functions."""

from __future__ import annotations

from sqlstream.functions.builtin import SYNTAX, Builtin, scalar
from sqlstream.functions.coercion import common_type
from sqlstream.functions.result_types import same_as_first
from sqlstream.types import BOOLEAN

CONDITIONS: tuple[Builtin, ...] = (
    scalar("all", origin=SYNTAX),
    scalar("and"),
    scalar("between"),
    scalar("case", flink=True),
    scalar("coalesce", "1+", common_type, flink=True),
    scalar("equal_null", "2"),
    scalar("if", "3", flink=True),
    scalar("ifnull", "2", common_type, aliases="nvl", flink=True),
    scalar("ilike", None, BOOLEAN),
    scalar("in"),
    scalar("isnan", "1", BOOLEAN),
    scalar("isnotnull", "1", BOOLEAN),
    scalar("isnull", "1", BOOLEAN),
    scalar("like", None, BOOLEAN),
    scalar("nanvl", "2"),
    scalar("not"),
    scalar("nullif", "2", same_as_first, flink=True),
    scalar("nullifzero", "1"),
    scalar("nvl2", "3"),
    scalar("or"),
    scalar("regexp_like", "2", BOOLEAN, regex=True),
    scalar("rlike", None, BOOLEAN, aliases="regexp", regex=True),
    scalar("when"),
    scalar("zeroifnull", "1"),
)
