"""Exit codes of the command line; click itself exits with 2 where a command is wrong."""

from __future__ import annotations

from sqlstream.errors import ExecutionError, SqlStreamError

OK = 0
WRONG_SQL = 1
JOB_FAILED = 3
INTERNAL = 70  # this and the next as in sysexits.h
CANNOT_WRITE = 74
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as of any program whose reader goes away


def exit_code(error: BaseException) -> int:
    """3 where a job failed, 1 where the SQL or its options are wrong, 70 for anything that nobody expected."""
    match getattr(error, "error", error):  # of one of several scripts
        case ExecutionError():
            return JOB_FAILED
        case SqlStreamError():
            return WRONG_SQL
    return INTERNAL
