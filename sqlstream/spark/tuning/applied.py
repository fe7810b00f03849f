"""The tuning of Spark: before, during and after its start."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.paths import temporary_folder
from sqlstream.spark.archived_classes import jvm_options
from sqlstream.spark.internals import hadoop_configuration, java_of
from sqlstream.spark.running import is_connect
from sqlstream.spark.tuning.choices import Tuning
from sqlstream.spark.tuning.standard_error import messages_to
from sqlstream.udfs.spark import daemon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# --- Failures of an optimization -------------------------------------------------------------------------------


T = TypeVar("T")

_LOG = logging.getLogger("sqlstream.spark")


def guarded(key: str, act: Callable[[], T], otherwise: T) -> T:
    """Calls ``act`` and returns its result. If it fails, logs that and returns ``otherwise``. ``key`` is the setting
    with which users disable the optimization, for the log.
    """
    try:
        return act()
    except Exception as error:
        _LOG.warning('Spark runs without "%s": %s', key, error)
        return otherwise


@contextmanager
def guarded_context(key: str, context: AbstractContextManager[object]) -> Iterator[None]:
    """A context manager that enters ``context``; if that fails, the block runs without it. ``key`` as in
    ``guarded``.
    """
    with ExitStack() as stack:
        guarded(key, lambda: stack.enter_context(context), None)
        yield


# --- Memory ----------------------------------------------------------------------------------------------------
# A micro-batch asks for buffers of megabytes and frees them, thousands of times. As the C library gives such memory
# back to the system at once, the system clears new pages for each of them, which took up to a third of the time of
# tasks. The JVM gets its heap in pages of 2 MB for the same reason.


_THREADS_OF_AN_ARENA = 8

MALLOC = {
    # Only the main arena keeps more than 64 MB. Others give that much back as soon as nothing of it is in use.
    "MALLOC_ARENA_MAX": str(max(1, (os.cpu_count() or 1) // _THREADS_OF_AN_ARENA)),
    "MALLOC_MMAP_MAX_": "0",  # or all that is larger than 32 MB would go back when it is freed
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""What glibc reads as a process starts, sizes in bytes; other libraries do not look at it."""

_HUGE_PAGES = "-XX:+UseTransparentHugePages"
_OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def malloc_settings() -> Mapping[str, str]:
    """Spark's settings that pass environment variables of the memory allocator to executors and their Python processes,
    so that these keep freed memory for reuse.
    """
    return {f"spark.executorEnv.{name}": value for name, value in _unset().items()}


@contextlib.contextmanager
def malloc_of_processes() -> Iterator[None]:
    """A context manager: processes started in it get the memory allocator's environment variables, unless the user has
    set them.
    """
    added = _unset()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def huge_pages() -> str:
    """The JVM option for huge pages; empty where the system does not offer them, because the JVM would warn."""
    try:
        offered = _OFFERED.read_text(encoding="ascii")
    except OSError:
        return ""
    return "" if "[never]" in offered else _HUGE_PAGES


def _unset() -> dict[str, str]:
    return {name: value for name, value in MALLOC.items() if name not in os.environ}


# --- Error lines of PySpark ------------------------------------------------------------------------------------
# PySpark writes an error of Spark to standard error as it raises it: a line of JSON with the stack of the JVM, 14 kB
# and more, for the error and each of its causes. Who uses sqlstream reads our diagnostic instead, so these lines are
# dropped where the error is raised below a call of ours: in ``Session``, on the thread of a job, in what writes
# micro-batches. The same errors in PySpark code of the user's own are logged as ever.


_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class ReportedByUs(logging.Filter):
    """A log filter that drops records of errors that sqlstream itself reports. It can be removed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for log records of errors that are raised below a call of sqlstream."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("sqlstream.") and name != __name__:
                return False
            frame = frame.f_back
        return True


_FILTER = ReportedByUs()


def quiet_reported_errors() -> None:
    """Install the filter on PySpark's loggers; no effect where PySpark lacks them, as it then prints nothing."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger  # PySpark, which some versions have no loggers in

        for name in _LOGGERS:
            PySparkLogger.getLogger(name).addFilter(_FILTER)  # a filter that is there already is not added again


# --- The Python of local workers -------------------------------------------------------------------------------
# Spark puts a zip of PySpark's sources before the installed package. Python keeps no compiled modules of a zip, so
# each worker would compile what it imports anew: half a second for every streaming query with state. And each would
# import anew what all of them need: half a second more. ``daemon`` does that once, before it forks.


_SCRIPT = """#!/bin/sh
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in */python/lib/pyspark.zip) ;; *) kept=${{kept:+$kept:}}$entry ;; esac
done
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    set -- {daemon} "$@"
fi
PYTHONPATH=$kept exec {python} "$@"
"""


_MOST_SECONDS = 60


def worker_python() -> str:
    """The path of a script that starts this Python without PySpark's zip archive on its path; it is removed at the end
    of this process.

    OSError where the temporary folder cannot be written, or is mounted without the right to execute.
    """
    if os.name != "posix":
        return sys.executable
    handle, name = tempfile.mkstemp(prefix="sqlstream-python-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_SCRIPT.format(python=shlex.quote(sys.executable), daemon=shlex.quote(daemon.__file__)))
    Path(name).chmod(0o700)
    atexit.register(Path(name).unlink, missing_ok=True)
    subprocess.run([name, "--version"], check=True, capture_output=True, timeout=_MOST_SECONDS)
    return name


# --- Sockets between Spark and Python --------------------------------------------------------------------------


_LONGEST_TEMPORARY_FOLDER = 40
"""The name of a socket has at most 107 bytes, of which our folder there takes 19 and Spark 43."""


def socket_settings(master: str) -> Mapping[str, str]:
    """Spark's settings for Unix sockets in a folder of this process; none where Spark must use TCP.

    Over TCP each message that Spark writes in two pieces waits 40 ms for an acknowledgement, several times per task.
    """
    too_long = len(tempfile.gettempdir()) > _LONGEST_TEMPORARY_FOLDER
    if not master.startswith("local") or sys.platform != "linux" or too_long:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": _folder()}


@cache
def _folder() -> str:
    """A folder that is removed at the end of this process: Spark leaves some of its sockets there."""
    folder = temporary_folder("sqlstream-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)


# --- File permissions without chmod ----------------------------------------------------------------------------
# That is 8 to 10 processes per micro-batch with state, each of which takes as long as writing ten files. Java has a
# call for it. As ``chmod`` it leaves folders the bits by which their files get their group. The class that uses it is
# compiled where Spark runs, by the compiler that Spark brings along.


CLASS = "QuickLocalFiles"
_HADOOP = "org.apache.hadoop.fs"
_QUICK_FILES_FILTER = f"{_HADOOP}.FilterFileSystem"
_SOURCE = f"""
public class {CLASS} extends {_HADOOP}.RawLocalFileSystem {{
    public void setPermission({_HADOOP}.Path path, {_HADOOP}.permission.FsPermission permission)
            throws java.io.IOException {{
        if (permission.getStickyBit()) {{
            super.setPermission(path, permission);
            return;
        }}
        java.nio.file.Path file = pathToFile(path).toPath();
        int mode = ((Integer) java.nio.file.Files.getAttribute(file, "unix:mode")).intValue();
        int kept = (mode & 0170000) == 0040000 ? mode & 06000 : 0;
        java.nio.file.Files.setAttribute(file, "unix:mode", Integer.valueOf(permission.toShort() & 0777 | kept));
    }}
}}
"""


def use_quick_files(spark: SparkSession) -> None:
    """Let this session set permissions of local files without starting a process.

    Does nothing through Spark Connect, with a file system that the user has configured, and with Hadoop's native
    library.
    """
    if os.name != "posix" or is_connect(spark):
        return
    jvm, conf = java_of(spark), hadoop_configuration(spark)
    if jvm is None or conf is None:
        return
    root = jvm.java.net.URI("file:///")
    holder = _holder_of_raw_files(jvm.org.apache.hadoop.fs.FileSystem.get(root, conf))
    if holder is None or jvm.org.apache.hadoop.io.nativeio.NativeIO.isAvailable():
        return
    files = _compiled(jvm)
    files.initialize(root, conf)
    # The holder, which is kept for all of Spark, adds checksums and stays as it is; no setting names our class.
    field = jvm.java.lang.Class.forName(_QUICK_FILES_FILTER).getDeclaredField("fs")
    field.setAccessible(True)
    field.set(holder, files)


def _holder_of_raw_files(files: Any) -> Any:
    """The file system directly above Hadoop's plain files; None where it is not found."""
    while _QUICK_FILES_FILTER in _classes_of(files):
        inner = files.getRawFileSystem()
        if inner.getClass().getName() == f"{_HADOOP}.RawLocalFileSystem":
            return files
        files = inner
    return None


def _classes_of(value: Any) -> Iterator[str]:
    """The names of the class of an object and of its superclasses."""
    java_class = value.getClass()
    while java_class is not None:
        yield java_class.getName()
        java_class = java_class.getSuperclass()


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.ClassLoader.getSystemClassLoader())
    compiler.cook(_SOURCE)
    return compiler.getClassLoader().loadClass(CLASS).newInstance()


# The JVM optimizes what has been called some thousand times: all of Spark's planning, micro-batch after micro-batch,
# for a minute and a third of all processor time. Loops over rows still come to it within a second.
COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=30000 -XX:Tier4CompileThreshold=100000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


# Java takes more heap where it collects garbage for a thirteenth of the time, and gives none back: it had all of 4 GB
# where 2 do. At a fifth it stays small, and jobs take as long.
HEAP_GROWTH = "-XX:GCTimeRatio=4"


def tuned_settings(master: str, tuning: Tuning) -> Mapping[str, str]:
    """Returns those of Spark's settings that the chosen optimizations need, by key. ``master``: Spark's master, such as
    ``local[4]``.
    """
    sockets: Mapping[str, str] = {}
    if tuning.local_sockets:
        sockets = guarded("sqlstream.spark.local-sockets", lambda: socket_settings(master), sockets)
    return {**sockets, **malloc_settings()} if tuning.kept_memory else sockets


def java_options(stated: str, tuning: Tuning) -> tuple[str, ...]:
    """The JVM options that ``tuning`` chooses, without those that the user sets in ``stated``."""
    compiler = COMPILER if tuning.late_compilation and "Tier" not in stated else ""
    growth = HEAP_GROWTH if tuning.small_heap and "GCTimeRatio" not in stated else ""
    pages = huge_pages() if tuning.kept_memory and "Pages" not in stated else ""
    uses_archive = tuning.class_archive and "Archive" not in stated
    archive = guarded("sqlstream.spark.class-archive", jvm_options, "") if uses_archive else ""
    return tuple(filter(None, (compiler, growth, pages, archive)))


def worker_command(master: str, tuning: Tuning) -> str:
    """The command that starts the Python processes of tasks."""
    lean = tuning.lean_workers and master.startswith("local")
    return guarded("sqlstream.spark.lean-workers", worker_python, sys.executable) if lean else sys.executable


@contextmanager
def while_starting(log: Path, tuning: Tuning) -> Iterator[None]:
    """A context manager around the start of the JVM: sets environment variables and redirects standard error to
    ``log``; the JVM keeps both.
    """
    with ExitStack() as stack:
        if tuning.log_file:
            stack.enter_context(guarded_context("sqlstream.spark.log-file", messages_to(log)))
        if tuning.kept_memory:
            stack.enter_context(malloc_of_processes())
        yield


def tune_running(spark: SparkSession, tuning: Tuning) -> None:
    """Applies those optimizations that need a running session to a Spark that this process has started."""
    if tuning.quick_files:
        guarded("sqlstream.spark.quick-files", lambda: use_quick_files(spark), None)
    be_quiet(tuning)


def be_quiet(tuning: Tuning) -> None:
    """Suppresses PySpark's own log lines for errors that sqlstream reports anyway, if the settings choose that."""
    if tuning.quiet_errors:
        guarded("sqlstream.spark.quiet-errors", quiet_reported_errors, None)
