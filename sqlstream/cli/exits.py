"""Exit codes of the command line."""

from __future__ import annotations

from sqlstream.errors import ExecutionError, SqlStreamError

OK = 0
WRONG_SQL = 1
WRONG_USAGE = 2
JOB_FAILED = 3
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as of any program whose reader goes away


def exit_code(error: SqlStreamError) -> int:
    """3 where a job failed, 1 where the SQL or its options are wrong."""
    return JOB_FAILED if isinstance(error, ExecutionError) else WRONG_SQL
