"""Starts PySpark's daemon, whose forks are the workers of tasks, with what workers import in it already.

PySpark imports in each worker anew, half a second of processor time. It does so because packages may start threads as
they are imported, which a fork lacks. Those here start two kinds: OpenBLAS's, which it ends before a fork and starts
after it, and one of jemalloc, an allocator of Arrow that is not in use. Spark asks for ``python -m pyspark.daemon``;
the script that starts the Python of workers (``sqlstream.spark.tuning``) runs this file in its place.
"""

from __future__ import annotations

import gc
import importlib
import sys

PRELOADED = (
    "pyarrow.compute", "pyarrow.parquet", "pyspark.worker", "sqlstream.udfs.column_rows", "sqlstream.udfs.exchange",
    "sqlstream.udfs.files.records", "sqlstream.udfs.spark.adapter",
)  # fmt: skip


def preload() -> None:
    """Imports what workers need, and takes it from the garbage collector, which PySpark runs behind each task. Makes
    the memory that they share.
    """
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except Exception:
            return  # the worker that needs it says what is wrong
    from sqlstream.udfs.spark.shared_memory import share_memory  # where this package is not, nothing is shared

    share_memory()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.path[0] = ""  # as for ``python -m``: not the folder of this file, whose modules are none of the top level
    preload()
    from pyspark.daemon import manager

    manager()
