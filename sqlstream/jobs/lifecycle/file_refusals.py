"""Spark's words for a file that the system refuses, of a sink or of a checkpoint, as an error that names it."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from sqlstream.errors import Diagnostic

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
    """The path that the system has refused to write or to read, and the reason."""
    for pattern, reason in _KINDS:
        match = pattern.search(text)
        if match is not None:
            return _refused(match[1], reason or match[2])
    return None


def vanished(text: str) -> Diagnostic | None:
    """A file whose directory was gone when it was to be written, or that was gone when it was to be read."""
    match = _GONE.search(text)
    return None if match is None else _refused(match[1], "it, or its directory, is not there")


def _refused(path: str, reason: str) -> Diagnostic:
    file_path = unquote(urlsplit(path).path) if path.startswith("file:") else path
    return Diagnostic(REFUSED, f'"{file_path}" cannot be written or read: {reason}', hint=_HINT)
