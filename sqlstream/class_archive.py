"""A faster start of Spark: the JVM's classes, loaded and checked once and kept in a file.

``python -m sqlstream.class_archive`` makes the archive (200 MB, in the user's cache directory); every local session
uses it from then on. The JVM checks that Java and all jars are the same, and does without the archive if not.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.java import find_java, require_java
from sqlstream.user_folders import cache_folder, is_there, made

NO_CACHE = "SS438"
COMMAND = "python -m sqlstream.class_archive"

_QUIET = "-Xlog:cds=off -Xlog:class+path=off"  # an archive that does not fit is no news
_WARM_UP_SECONDS = 600
_SLOW_SECONDS = 3.0

_SCRIPT = """
CREATE TABLE numbers (n BIGINT, ts AS TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, n),
    WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}');
SELECT window_start, COUNT(*), SUM(n) FROM TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '10' SECOND)
    GROUP BY window_start, window_end
"""


def archive_file() -> Path | None:
    """Where the archive for this Spark and this Java is, if there is one; None where the user has no cache."""
    import pyspark

    folder = cache_folder()
    if folder is None:
        return None
    place = f"{Path(find_java() or '').resolve()} {Path(pyspark.__file__).parent}"
    return folder / f"spark-{pyspark.__version__}-{hashlib.sha256(place.encode()).hexdigest()[:12]}.jsa"


def jvm_options() -> str:
    """The options with which a JVM uses the archive; empty where there is none."""
    archive = archive_file()
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive is not None and is_there(archive) else ""


def advice(seconds: float) -> str | None:
    """That an archive would have made Spark's start of so many seconds faster; said once for a Spark and a Java.

    None where there is an archive, where the start was fast, and where nobody could remember that it was said.
    """
    archive = archive_file()
    if archive is None:
        return None
    said = archive.with_suffix(".advised")
    if seconds < _SLOW_SECONDS or is_there(archive) or is_there(said):
        return None
    try:
        said.parent.mkdir(parents=True, exist_ok=True)
        said.touch()
    except OSError:
        return None
    return f'Spark took {seconds:.0f} s to start; "{COMMAND}", run once, about halves that. (This is said once.)'


def build() -> Path:
    """Run a small job in another process whose JVM writes down the classes that it has loaded.

    ExecutionError SS438 where the user's cache cannot be written.
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
    from sqlstream import connect
    from sqlstream.jvm_exit import stop_jvm
    from sqlstream.results import Query
    from sqlstream.spark import spark_session

    options = f"-XX:ArchiveClassesAtExit={archive} {_QUIET}"
    spark = spark_session({"spark.driver.extraJavaOptions": options}, "local[2]")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "numbers.json").write_text('{"n": 1}\n{"n": 20}\n', encoding="utf-8")
        with connect(spark) as session:
            query = session.sql(_SCRIPT.format(path=folder))
            assert isinstance(query, Query)
            list(query)
    stop_jvm(spark)


def main() -> int:
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
