"""A faster start of Spark: the JVM's classes, loaded and checked once and kept in a file.

``python -m sqlstream.class_archive`` makes the archive (200 MB, in the user's cache directory); every local session
uses it from then on. The JVM checks that Java and all jars are the same, and does without the archive if not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from sqlstream import connect
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.paths import made
from sqlstream.query import Query
from sqlstream.spark.archived_classes import QUIET, archive_file
from sqlstream.spark.java import require_java
from sqlstream.spark.session import spark_session, stop_jvm

NO_CACHE = "SS438"
_WARM_UP_SECONDS = 600

_SCRIPT = """
CREATE TABLE numbers (n BIGINT, ts AS TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, n),
    WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}');
SELECT window_start, COUNT(*), SUM(n) FROM TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '10' SECOND)
    GROUP BY window_start, window_end
"""


def build() -> Path:
    """Creates the JVM class archive that makes Spark start faster: runs a small job in another process, whose JVM
    archives the classes it has loaded.

    Raises ExecutionError SS438 where the user's cache folder cannot be written.
    """
    require_java()
    archive = archive_file()
    if archive is None or made(archive.parent) is None:
        where = "the home directory of the user" if archive is None else f'"{archive.parent}"'
        hint = "Set the environment variable XDG_CACHE_HOME to a directory that can be written, now and for all jobs."
        raise ExecutionError(NO_CACHE, f"no archive of classes can be kept: {where} cannot be written", hint=hint)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        fresh = Path(folder, "fresh.jsa")
        command = [sys.executable, "-m", "sqlstream.class_archive", str(fresh)]
        subprocess.run(command, check=True, timeout=_WARM_UP_SECONDS)
        fresh.replace(archive)
    return archive


def _run_job(archive: str) -> None:
    options = f"-XX:ArchiveClassesAtExit={archive} {QUIET}"
    spark = spark_session({"spark.driver.extraJavaOptions": options}, "local[2]")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "numbers.json").write_text('{"n": 1}\n{"n": 20}\n', encoding="utf-8")
        with connect(spark) as session:
            query = session.sql(_SCRIPT.format(path=folder))
            assert isinstance(query, Query)
            list(query)
    stop_jvm(spark)


def main() -> int:
    """Without an argument: makes the class archive and prints its path. With a path as argument, as ``build`` calls
    it: runs the small job and archives its classes there. Returns the exit code.
    """
    if len(sys.argv) > 1:
        _run_job(sys.argv[1])
    else:
        sys.stderr.write("running a small job, of which the archive keeps the classes; it takes up to two minutes\n")
        try:
            sys.stdout.write(f"{build()}\n")
        except SqlStreamError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
