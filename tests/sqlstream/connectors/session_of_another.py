"""SQL of another engine, in an environment that has its packages alone.

``python session_of_another.py ENGINE PACKAGES`` reads requests from its input, a JSON object a line, each answered by a
line: ``settings`` of a session of its own, ``statements`` to run in order, and a ``query`` whose rows are the answer.
ENGINE is spark, whose PACKAGES are Maven's, or duckdb, whose PACKAGES are extensions.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until the input ends. What the engine prints goes to the errors."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    open_session = {"spark": spark, "duckdb": duckdb}[sys.argv[1]]
    new_session = open_session(sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            run, rows = new_session(request["settings"]), []
            for statement in (*request["statements"], *filter(None, [request["query"]])):
                rows = run(statement)
            answer: dict[str, Any] = {"rows": [list(row) for row in rows]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:4000]}
        print(json.dumps(answer), file=answers, flush=True)


def spark(packages: str) -> Callable[[dict[str, str]], Callable[[str], list[Any]]]:
    """A small Spark with the connector of Delta or of Iceberg, whichever is among the packages."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars.packages": packages,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    if "delta" in packages:
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.databricks.delta.snapshotPartitions"] = "1"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    builder: Any = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    started = builder.master("local[1]").getOrCreate()

    def new_session(own_settings: dict[str, str]) -> Callable[[str], list[Any]]:
        own = started.newSession()
        for key, value in own_settings.items():
            own.conf.set(key, value)
        return lambda statement: own.sql(statement).collect()

    return new_session


def duckdb(packages: str) -> Callable[[dict[str, str]], Callable[[str], list[Any]]]:
    """DuckDB with extensions that came with packages of Python."""
    import duckdb  # type: ignore[import-not-found, unused-ignore]

    def new_session(own_settings: dict[str, str]) -> Callable[[str], list[Any]]:
        connection: Any = duckdb.connect(config={"autoinstall_known_extensions": "false", **own_settings})
        for name in packages.split(","):
            found = find_spec(f"duckdb_extension_{name}")
            assert found is not None and found.origin is not None
            (file,) = Path(found.origin).parent.glob("extensions/*/*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        return lambda statement: connection.execute(statement).fetchall()

    return new_session


if __name__ == "__main__":
    main()
