"""Importing the package and everything that works without Spark stays cheap."""

from __future__ import annotations

import subprocess
import sys
import time

HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "lark", "sqlglot")


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert modules_after("import sqlstream").isdisjoint(HEAVY)


def test_importing_the_package_is_fast() -> None:
    started = min(_seconds("pass") for _ in range(3))
    assert min(_seconds("import sqlstream") for _ in range(3)) - started < 0.3


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def test_what_plans_micro_batches_loads_neither_planner_nor_pandas() -> None:
    """Spark starts a process for it with each query, and reads nothing before."""
    assert modules_after("import sqlstream.sources.kafka.ranges").isdisjoint({"pandas", "sqlglot", "lark"})


NO_SPARK = (
    "SHOW TABLES",
    "SHOW CREATE TABLE t",
    "DESCRIBE t",
    "SET 'parallelism.default' = '2'",
    "EXPLAIN SELECT a FROM t",
    "EXPLAIN LOGICAL SELECT a FROM t",
)


def test_definitions_and_plans_need_no_spark() -> None:
    """In one process, which says behind which statement something was loaded first."""
    code = f"""
import sys, sqlstream
with sqlstream.connect() as session:
    session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
    for statement in {NO_SPARK}:
        session.sql(statement)
        loaded = {{"pyspark", "pandas", "pyarrow"}} & set(sys.modules)
        assert not loaded, (statement, loaded)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_planner_loads_no_parser() -> None:
    assert modules_after("import sqlstream.planner").isdisjoint(HEAVY)


def test_the_first_plan_loads_neither_numpy_nor_spark() -> None:
    """Only the parser: whoever embeds the planner pays for no kernel."""
    code = """
import sqlstream.planner
from sqlstream.planner import bind_query, optimize, to_json
"""
    assert modules_after(code).isdisjoint(("pyspark", "pandas", "numpy", "pyarrow"))
