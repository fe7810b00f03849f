"""Spark's exceptions as errors that name their cause."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.errors import Diagnostic, ExecutionError, SqlStreamError
from sqlstream.jobs.checkpoints.storage import NO_SPACE, LocalStorage, damaged, disk_full, local_storage_at
from sqlstream.jobs.records.history import last_begun
from sqlstream.jobs.records.record import working_elsewhere
from sqlstream.planner.lowering.context import too_deep_for_spark
from sqlstream.spark.internals import java_process, java_trace
from sqlstream.spark.log import end_of_log, where_spark_tells
from sqlstream.spark.running import has_stopped, is_spark_gone
from sqlstream.types import parse_type
from sqlstream.udfs.bad_records import BAD_ROW, BAD_ROW_HINT
from sqlstream.udfs.files.listed import OTHER_TYPE, files_of, type_name, unreadable, vanished

# --- Files of a micro-batch ------------------------------------------------------------------------------------
# Spark names the file of a row only where nothing stands between, and naming it would keep Spark from moving
# conditions down to the files. Spark's checkpoint lists the files of each micro-batch.


_SHOWN = 3


def read_last(checkpoint: str) -> str | None:
    """A sentence that names the files which the newest micro-batch has read, for error messages. Only for checkpoints
    on this machine; None without such files.
    """
    here = local_storage_at(checkpoint) if checkpoint else None
    files = sorted(set(_files(here))) if here is not None else []
    if not files:
        return None
    names = [f'"{file}"' for file in files[:_SHOWN]]
    more = len(files) - len(names)
    if len(files) == 1:
        return f"The micro-batch has read file {names[0]}."
    last = f"{more} more" if more else names.pop()
    return f"The micro-batch has read the files {', '.join(names)} and {last}."


def _files(here: LocalStorage) -> list[str]:
    """Those that the job writes itself, such as control rows, left out; none where logs are damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        begun = last_begun(here)
        if begun is not None:
            return [file for file in files_of(here.root / "spark", begun) if not file.startswith(f"{here.root}/")]
    return []


# --- Files that the operating system refuses -------------------------------------------------------------------


REFUSED = "SS439"

_REASONS = (
    "Permission denied|Read-only file system|Not a directory|Is a directory|File name too long|Operation not permitted"
    "|Too many levels of symbolic links|Input/output error|Stale file handle"
)
_PATH = r"((?:file:)?/[^\n]*?)"
_KINDS = (
    (re.compile(rf"Mkdirs failed to create {_PATH} \(exists=\w+"), "its directory cannot be made"),
    (
        re.compile(rf"(?:Parent path|Destination exists and) is not a directory: {_PATH}\s*$", re.MULTILINE),
        "a file stands where a directory must be",
    ),
    (re.compile(rf"Exception: {_PATH} \(({_REASONS})\)"), ""),
    (re.compile(rf"(?:AccessDenied|FileSystem)Exception: {_PATH}: (?:[^\n]*: )?({_REASONS})"), ""),
    (re.compile(rf"AccessDeniedException: {_PATH}\s*$", re.MULTILINE), "Permission denied"),
)
_GONE = re.compile(rf"FileNotFoundException: {_PATH} \(No such file or directory\)")
_HINT = (
    "Look at the permissions of its directory, and of those above it, for the user who runs Spark and its workers. "
    "Then start the job again."
)


def refusal(text: str) -> Diagnostic | None:
    """The diagnostic for an error text of the operating system that refused to read or write a path: which path, and
    why. None for other texts.
    """
    for pattern, reason in _KINDS:
        match = pattern.search(text)
        if match is not None:
            return _refused(match[1], reason or match[2])
    return None


def _unreachable(text: str) -> Diagnostic | None:
    """A file whose directory was gone when it was to be written, or that was gone when it was to be read."""
    match = _GONE.search(text)
    return None if match is None else _refused(match[1], "it, or its directory, is not there")


def _refused(path: str, reason: str) -> Diagnostic:
    file_path = unquote(urlsplit(path).path) if path.startswith("file:") else path
    return Diagnostic(REFUSED, f'"{file_path}" cannot be written or read: {reason}', hint=_HINT)


# --- Memory of Java --------------------------------------------------------------------------------------------
# Whoever needs memory first fails, and others fail after it in words of their own: Spark stops, or its process ends.
# Why is in Spark's log.


OUT_OF_MEMORY = "SS474"

_MEMORY_ERROR = re.compile(r"\b(?:OutOfMemoryError|OutOfDirectMemoryError|SparkOutOfMemoryError)\b:?[ ]?([^\n]*)")
_DIRECT = re.compile("direct", re.IGNORECASE)
_FOR_JAVA = (
    'Raise "spark.driver.memory" ("spark.executor.memory" on a cluster){more} before Spark starts: '
    'connect(**{{"spark.driver.memory": "4g"}}), or --set spark.driver.memory=4g; or let micro-batches be smaller, by '
    "the options of the sources that bound them."
)
_BESIDES_HEAP = {
    "unable to create native thread": "Raise the number of threads that the system allows the user (ulimit -u).",
    "Metaspace": 'Raise -XX:MaxMetaspaceSize in "spark.driver.extraJavaOptions", or leave it out.',
}
_NO_NATIVE_MEMORY = re.compile(
    r"insufficient memory for the Java Runtime Environment to continue\.\s*#\s*([^\n.]*)", re.IGNORECASE
)
_KILLED = -9
_OUT_OF_MEMORY_EXIT = 52
"""With this code Spark ends its process after an OutOfMemoryError of a thread (SparkExitCode.OOM)."""
_ENDING_SECONDS = 0.5


def memory_failure(text: str, *, gone: bool = False) -> Diagnostic | None:
    """Returns the diagnostic that Spark ran out of memory if the error text ``text`` says so, else None.

    ``gone``: Spark's process has ended. Then Spark's log is searched too, and a process that was killed by the system
    counts.
    """
    match = _MEMORY_ERROR.search(text)
    if match is not None:
        return _out_of_memory(match[0], match[1])
    return _of_ended_java(end_of_log()) if gone else None


def _of_ended_java(log: str) -> Diagnostic | None:
    """The memory that a Java that has ended lacked, as the end of its log or its exit code says."""
    match, native = next(reversed(list(_MEMORY_ERROR.finditer(log))), None), _NO_NATIVE_MEMORY.search(log)
    if match is not None:
        return _out_of_memory(match[0], match[1])
    code = None if native is not None else _exit_code()
    if code == _OUT_OF_MEMORY_EXIT:  # there may have been no memory left to write the log
        return _out_of_memory("OutOfMemoryError", "its exit code says so, and its log nothing")
    if native is None and code != _KILLED:
        return None
    message = "the process of Spark was killed, as the system does where the machine lacks memory"
    if native is not None:
        message = f"the machine has given the process of Spark no more memory: {native[1].strip()}"
    hint = (
        'See the log of the system. Give Spark less ("spark.driver.memory", fewer cores: connect("local[2]")), or the '
        "machine or container more memory; then start the job again."
    )
    return Diagnostic(OUT_OF_MEMORY, message, hint=hint)


def _exit_code() -> int | None:
    """That of the Java that this process has started, which may be about to end; None while it lives."""
    process = java_process()
    with suppress(subprocess.TimeoutExpired):
        return None if process is None else process.wait(_ENDING_SECONDS)
    return None


def _out_of_memory(whole: str, reason: str) -> Diagnostic:
    reason = _SQLSTATE.sub("", reason).strip().rstrip(".") or whole.rstrip(": ")
    other = next((hint for words, hint in _BESIDES_HEAP.items() if words in reason), None)
    more = ', or -XX:MaxDirectMemorySize in "spark.driver.extraJavaOptions",' if _DIRECT.search(whole) else ""
    message = f"Java has run out of memory: {reason}"
    return Diagnostic(OUT_OF_MEMORY, message, hint=other or _FOR_JAVA.format(more=more))


JOB_FAILED = "SS400"
WRONG_HEADER = "SS525"
SPARK_GONE = "SS464"
WORKER_GONE = "SS466"
NO_MODULE = "SS496"

_OURS = re.compile(
    # An expression of ours that fails, or one of our errors that ends the traceback of a Python worker.
    r"(?:\[USER_RAISED_EXCEPTION\] |\bFunctionError: |\bsqlstream\.errors\.\w+: )(?P<code>SS\d{3}): (?P<message>.+)"
    r"(?:\nDETAIL: (?P<detail>.+))?(?:\nHINT: (?P<hint>.+))?"
)
_NAMED = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)?\] ")  # by Spark, in its own words: the class of Java says nothing more
_CAUSE = re.compile(r"^(?:Caused by: |: )?([\w.$]+(?:Exception|Error)): (.+)", re.MULTILINE)
_UNREADABLE = re.compile(  # of the state, or of Spark's logs; the rows of a source are told apart by their path
    r"(FileNotFoundException|ChecksumException|EOFException): [^\n]*?(/[^\s:]+/spark/(?:state|sources|offsets|commits)"
    r"/[^\s:]+)"
)
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_CUT_OFF = re.compile(  # of a task's Python from Spark's state, by what is known to Spark's log alone
    r'(?:state_server|stateful_processor_api_client)\.py", line(?s:.*?)'
    r"^(?:EOFError|ConnectionResetError|BrokenPipeError)\b",
    re.MULTILINE,
)
_OF_A_ROW = frozenset({"SS401", "SS430"})
"""Found by expressions far from the file that the row comes from."""
_NO_ROOM_BYTES = 1 << 20
_MALFORMED = ("[MALFORMED_RECORD_IN_PARSING", "[MALFORMED_CSV_RECORD")
_READING = re.compile(r"\[FAILED_READ_FILE\.\w+\][^\n]*? reading file (?P<file>\S+?)\.(?:\s|$)", re.MULTILINE)
_COLON = "its name has a colon, with which Hadoop, which opens it for Spark, opens no file; rename it"
_OTHER_TYPE = re.compile(  # "actual" is what Parquet calls it: INT64, BINARY
    r"reading file (?P<file>\S+?)\. Data type mismatches when reading Parquet column \[(?P<column>[^\]]+)\]\. "
    r"Expected Spark type (?P<wanted>.+?), actual Parquet type (?P<actual>\w+)\."
)
_OTHER_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (?P<there>.+)\s+Schema: .+\s+"
    r"Expected: (?P<wanted>.+) but found: (?P<found>.+)\s+CSV file: (?P<file>\S+)"
)
_CONCURRENT = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|another query with same id is already active")
_NOT_BACK = "Python worker failed to connect back"
_SHUT_DOWN = "SparkContext was shut down"
_CANCELLED = ("cancelled as part of cancellation of all jobs", _SHUT_DOWN, "has been cancelled")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


def job_error(error: BaseException, name: str | None, checkpoint: str, *, temporary: bool = False) -> SqlStreamError:
    """Turns the exception that ended a job into the error that users see: a diagnostic that Spark passed on as text, or
    Spark's own message.

    ``name``: the job's name; None for a query whose rows are read by the caller, which cannot be continued.
    ``temporary``: the checkpoint is removed with the session, so the job cannot be continued either.
    """
    if isinstance(error, SqlStreamError):
        return error
    text = str(error)
    in_java = _in_java(error)
    deep = too_deep_for_spark(text + in_java)
    memory = memory_failure(text + in_java, gone=is_spark_gone(error) or _SHUT_DOWN in text)
    cause = (
        memory
        or _spark_gone(error)
        or _ours(text)
        or deep
        or _outside(text + in_java, checkpoint)
        or _cause(text, in_java)
    )
    where = read_last(checkpoint) if cause.code in _OF_A_ROW and " of file " not in cause.message else None
    detail = " ".join(filter(None, (cause.detail, where, _what_then(name, checkpoint, temporary))))
    return ExecutionError.of([replace(cause, detail=detail or None)])


def _what_then(name: str | None, checkpoint: str, temporary: bool) -> str:
    if name is None:
        return ""
    if temporary:
        return (
            f'Job "{name}" stopped. Its checkpoint was temporary, so another start begins anew; '
            "'execution.checkpointing.dir' names a directory that stays."
        )
    return f'Job "{name}" stopped. It goes on from its last complete batch with the checkpoint "{checkpoint}".'


def _in_java(error: BaseException) -> str:
    """Spark's stack trace with all causes: its message may leave them out, as for state that cannot be written."""
    trace = java_trace(error)
    return f"\n{trace}" if trace else ""


_FILE = re.compile(r"error while reading file (\S+?)\.?\s")


def _bad_row(text: str, cause: str) -> str:
    """The file, where it is one, and what is wrong with the row."""
    files = _FILE.findall(text)
    where = f'a row of file "{files[-1]}"' if files else "a row"
    reason = _SQLSTATE.sub("", cause.partition(": ")[2]).rstrip(".")
    return f"{where} cannot be read: {reason}"


def _spark_gone(error: BaseException) -> Diagnostic | None:
    if not is_spark_gone(error):
        return None
    hint = (
        "Start the job again. Where nobody has killed it, the machine may have been out of memory: see its log, and "
        f"{where_spark_tells()}."
    )
    message = "Spark has stopped" if has_stopped(str(error)) else "the process of Spark has ended"
    return Diagnostic(SPARK_GONE, message, hint=hint)


def _outside(text: str, checkpoint: str) -> Diagnostic | None:
    """A failure of files or processes of the job, not of its rows."""
    full = NO_SPACE.search(text)
    if full:
        return disk_full(full[1]).diagnostic
    if _CONCURRENT.search(text):
        return working_elsewhere(checkpoint).diagnostic
    files = _other_columns(text) or refusal(text) or _of_source(text) or _damage(text) or _unreachable(text)
    return files or _of_workers(text, checkpoint)


def _damage(text: str) -> Diagnostic | None:
    file = _UNREADABLE.search(text)
    return damaged(file[2], f"Spark has met {file[1]} there.").diagnostic if file else None


def _of_workers(text: str, checkpoint: str) -> Diagnostic | None:
    """A failure of the Python processes of tasks."""
    if _NOT_BACK in text:
        hint = "Start the job again, when the machine has less to do."
        return Diagnostic(WORKER_GONE, "a Python process of a task has not started in time", hint=hint)
    if "Python worker exited unexpectedly" in text:
        hint = (
            "Start the job again. Where nobody has killed it, look for a lack of memory, or for what its functions do; "
            f"see {where_spark_tells()}."
        )
        return Diagnostic(WORKER_GONE, "a Python process of a task has ended unexpectedly", hint=hint)
    if _CUT_OFF.search(text):
        return _cut_off(checkpoint)
    missing = _NO_MODULE.search(text)
    return _no_module(missing[1]) if missing else None


def _other_columns(text: str) -> Diagnostic | None:
    """A file that has come while the job ran, and has other columns than the table."""
    typed = _OTHER_TYPE.search(text)
    if typed:
        file = unquote(urlsplit(typed["file"]).path)
        type_there = _type_there(file, typed["column"]) or typed["actual"]
        message = f'column "{typed["column"]}" is {type_there} in file "{file}", not {parse_type(typed["wanted"])}'
        return Diagnostic(OTHER_TYPE, message, hint="Give the column the type that it has in its files.")
    named = _OTHER_HEADER.search(text)
    if named is None:
        return None
    file = unquote(urlsplit(named["file"]).path)
    message = f'the header of file "{file}" has "{named["found"].strip()}" in place of "{named["wanted"].strip()}"'
    hint = f"A table of CSV files has their columns in their order: {named['there'].strip()}."
    return Diagnostic(WRONG_HEADER, message, hint=hint)


def _of_source(text: str) -> Diagnostic | None:
    """A file of a source that is gone, or that its reader does not take; not of a record within it."""
    match = _READING.search(text)
    if match is None or any(record in text for record in _MALFORMED):
        return None
    file = unquote(re.sub("^file:/+", "/", match["file"]))
    causes = [cause for cause in _CAUSE.findall(text) if not cause[0].endswith("SparkException")]
    if ("FileNotFoundException" in text or "FILE_NOT_EXIST" in text) and "(Permission denied)" not in text:
        return vanished(file).diagnostic
    kind, message = causes[-1] if causes else ("", "Spark does not say why")
    if kind.endswith("URISyntaxException") and ":" in file:
        return unreadable(file, _COLON).diagnostic
    why = _SQLSTATE.sub("", f"{kind.rpartition('.')[2]}: {message.strip()}".removeprefix(": "))
    return unreadable(file, why).diagnostic


def _type_there(file: str, column: str) -> str | None:
    """The type of the column in a Parquet file; None where that is not to be read from here."""
    with suppress(pa.ArrowException, OSError):
        for field in pq.read_schema(file):
            if field.name.casefold() == column.casefold():
                return type_name(field.type)
    return None


def _cut_off(checkpoint: str) -> Diagnostic:
    """State that cannot be written is the most frequent cause."""
    here = local_storage_at(checkpoint)
    with suppress(OSError):
        if here is not None and shutil.disk_usage(here.root).free < _NO_ROOM_BYTES:
            return disk_full("No space left on device").diagnostic
    hint = f"Start the job again. The cause, such as a disk that is full, is in {where_spark_tells()}."
    return Diagnostic(WORKER_GONE, "Spark has cut a Python process of a task off from its state", hint=hint)


def is_slow_start(error: BaseException) -> bool:
    """True if the error says that a Python process did not start within Spark's fixed limit of 10 s."""
    return _NOT_BACK in str(error) + _in_java(error)


def _no_module(name: str) -> Diagnostic:
    """Kernels come with the package that is sent; the rest of it runs where Spark Connect writes micro-batches."""
    hint = "Install it for the Python of Spark's workers."
    if name.partition(".")[0] == "sqlstream":
        hint = (
            "Install sqlstream for the Python of Spark's server: through Spark Connect, statement sets, LATE DATA TO, "
            "ON ERROR TO and tables of databases and web services are written there."
        )
    return Diagnostic(NO_MODULE, f'Python on the side of Spark has no module "{name}"', hint=hint)


def is_cancellation(error: BaseException) -> bool:
    """True if an error was caused by Ctrl-C or by closing the session, which cancel Spark's work; False for errors of
    users' functions.
    """
    text = str(error)
    if not any(words in text for words in _CANCELLED) or _ours(text) is not None:
        return False
    return _SHUT_DOWN not in text or memory_failure(text, gone=True) is None


def _ours(text: str) -> Diagnostic | None:
    """A diagnostic raised in an expression or a Python worker of ours; the last one is the root cause."""
    matches = list(_OURS.finditer(text))
    if not matches:
        return None
    parts = {name: words and _SQLSTATE.sub("", words).strip() for name, words in matches[-1].groupdict().items()}
    return Diagnostic(parts["code"], parts["message"], detail=parts["detail"], hint=parts["hint"])


def _cause(text: str, in_java: str = "") -> Diagnostic:
    if any(record in in_java for record in _MALFORMED):
        text += in_java
    causes = _CAUSE.findall(text)
    if not causes:
        return Diagnostic(
            JOB_FAILED, text.strip().splitlines()[0] if text.strip() else "the job failed without a message"
        )
    kind, message = causes[-1]
    message = message.strip()
    if not _NAMED.match(message):
        message = f"{kind.rpartition('.')[2]}: {message}"
    if any(record in text for record in _MALFORMED):
        return Diagnostic(BAD_ROW, _bad_row(text, message), hint=BAD_ROW_HINT)
    return Diagnostic(JOB_FAILED, message)
