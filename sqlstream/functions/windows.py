"""Functions that need OVER, that make rows, and those that stand for a window, its properties or a time attribute."""

from __future__ import annotations

from sqlstream.functions.builtin import (
    Builtin,
    generator,
    group_window,
    table,
    time_attribute,
    window,
    window_property,
)
from sqlstream.types import DOUBLE, INT

OVER_ROWS: tuple[Builtin, ...] = (
    window("counter_diff"),
    window("cume_dist", result=DOUBLE, flink=True),
    window("dense_rank", flink=True),
    window("lag", flink=True),
    window("lead", flink=True),
    window("nth_value", flink=True),
    window("ntile", result=INT, flink=True),
    window("percent_rank", result=DOUBLE, flink=True),
    window("rank", flink=True),
    window("row_number", flink=True),
)
MAKING_ROWS: tuple[Builtin, ...] = (
    generator("explode", node="Explode"),
    generator("explode_outer"),
    generator("inline"),
    generator("inline_outer"),
    generator("json_tuple"),
    generator("posexplode"),
    generator("posexplode_outer"),
    generator("stack"),
    generator("variant_explode"),
    generator("variant_explode_outer"),
    table("collations"),
    table("python_worker_logs"),
    table("range"),
    table("sql_keywords"),
)
OF_CLAUSES: tuple[Builtin, ...] = (
    time_attribute("ingestion_time"),
    time_attribute("proctime", flink=True),
    group_window("tumble"),
    group_window("hop"),
    group_window("session"),
    group_window("cumulate"),
    window_property("tumble_start", flink=True),
    window_property("tumble_end", flink=True),
    window_property("tumble_rowtime", flink=True),
    window_property("tumble_proctime"),
    window_property("hop_start", flink=True),
    window_property("hop_end", flink=True),
    window_property("hop_rowtime", flink=True),
    window_property("hop_proctime"),
    window_property("session_start", flink=True),
    window_property("session_end", flink=True),
    window_property("session_rowtime"),
    window_property("session_proctime"),
    window_property("cumulate_start", flink=True),
    window_property("cumulate_end", flink=True),
    window_property("cumulate_rowtime"),
    window_property("cumulate_proctime"),
    window_property("window_pane"),
    window_property("window_pane_index"),
)
"""What the planner resolves itself, because its meaning depends on a clause: GROUP BY with a window, CREATE TABLE."""
