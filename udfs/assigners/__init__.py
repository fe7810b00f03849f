"""Window assigners: which windows a row belongs to, and which sessions are one."""

from sqlstream.udfs.assigners.assigner import (
    LATE,
    Assigned,
    Assigner,
    Cumulate,
    GivenWindows,
    Global,
    Hop,
    Session,
    Sessions,
    Tumble,
    Windows,
    late_windows,
    merge_sessions,
    windows_of_a_row,
)
from sqlstream.udfs.assigners.user import User

__all__ = [
    "LATE",
    "Assigned",
    "Assigner",
    "Cumulate",
    "GivenWindows",
    "Global",
    "Hop",
    "Session",
    "Sessions",
    "Tumble",
    "User",
    "Windows",
    "late_windows",
    "merge_sessions",
    "windows_of_a_row",
]
