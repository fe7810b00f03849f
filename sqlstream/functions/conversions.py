"""Conversions between types, and functions that describe a value, the session or the query."""

from __future__ import annotations

from sqlstream.functions.builtin import SYNTAX, Builtin, scalar
from sqlstream.types import STRING

CONVERSIONS: tuple[Builtin, ...] = (
    scalar("assert_true", "1 2"),
    scalar("bigint", "1"),
    scalar("binary", "1"),
    scalar("boolean", "1"),
    scalar("cast"),
    scalar("current_catalog", "0"),
    scalar("current_database", "0", aliases="current_schema"),
    scalar("current_path", "0"),
    scalar("current_user", "0", aliases="session_user user"),
    scalar("date", "1"),
    scalar("decimal", "1"),
    scalar("double", "1"),
    scalar("float", "1"),
    scalar("input_file_block_length", "0"),
    scalar("input_file_block_start", "0"),
    scalar("input_file_name", "0", volatile=True),
    scalar("int", "1"),
    scalar("monotonically_increasing_id", "0", volatile=True),
    scalar("raise_error", "1"),
    scalar("reflect", "2+", aliases="java_method"),
    scalar("smallint", "1"),
    scalar("spark_partition_id", "0", volatile=True),
    scalar("st_asbinary", "1 2"),
    scalar("st_geogfromwkb", "1"),
    scalar("st_geomfromwkb", "1 2"),
    scalar("st_setsrid", "2"),
    scalar("st_srid", "1"),
    scalar("string", "1"),
    scalar("time", "1"),
    scalar("timestamp", "1"),
    scalar("tinyint", "1"),
    scalar("try_cast", origin=SYNTAX),
    scalar("try_reflect", "2+"),
    scalar("typeof", "1", STRING, spark={2: "TYPEOF(p1)"}),
    scalar("version", "0"),
    scalar("window_time"),
)
