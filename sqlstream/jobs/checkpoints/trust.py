"""Whose state a job goes on from.

The state of Python aggregates and of Python triggers is pickled, and unpickling does whatever its writer wants. So a
query with one of them takes files of the user who runs the job and of root alone, unless a setting says otherwise. The
state of all other operators is data, which nothing executes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

from sqlglot import exp

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, cannot_read
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.firing import UserTrigger
from sqlstream.planner.node import Node

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

FOREIGN_STATE = "SS419"
SETTING = "execution.state-recovery.trust-any-owner"

_ROOT = 0


def unpickles_state(plan: Node, function: Callable[[str], Function | None]) -> bool:
    """True if an operator of the plan stores pickled Python objects in its state. ``function`` returns a user's
    function by name, None for others.
    """
    return any(_is_pickled(value, function) for node in plan.walk() for value in _values(node))


def _is_pickled(value: object, function: Callable[[str], Function | None]) -> bool:
    if isinstance(value, UserTrigger):
        return True
    if not isinstance(value, exp.Expr):
        return False
    called = (function(call.name) for call in value.find_all(exp.Anonymous))
    return any(called_one is not None and called_one.kind is FunctionKind.AGGREGATE for called_one in called)


def _values(owner: object) -> Iterator[object]:
    """The values that a node holds at any depth, without the nodes below it."""
    for field in fields(owner):  # type: ignore[arg-type]
        yield from _below(getattr(owner, field.name))


def _below(value: object) -> Iterator[object]:
    if isinstance(value, Node):
        return
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from _below(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _values(value)


def require_trusted(storage: Storage, what: str = "checkpoint") -> None:
    """Raises ExecutionError SS419 where a file of Spark's part of a checkpoint or savepoint has another owner than this
    user or root.

    Other files in the folder, such as requests, are not state and may have any owner. Owners are as the file system
    reports them. Remote files are not checked, because they have no owner: whoever may write there is trusted.
    ``what``: the word for the folder in messages.
    """
    if not isinstance(storage, LocalStorage) or not hasattr(os, "geteuid"):
        return
    folder = storage.root / "spark"
    if not folder.is_dir():
        return
    ours = {_ROOT, os.geteuid(), *_mapped(folder)}
    for path, owner in _owners(folder, set()):
        if owner not in ours:
            raise ExecutionError(
                FOREIGN_STATE,
                f'file "{path}" of a {what} belongs to user {_name(owner)}, and the job runs as {_name(os.geteuid())}',
                detail="The query has a Python aggregate or a Python trigger, whose state is unpickled: that runs code "
                "of whoever has written it.",
                hint="Where you trust its writers, SET 'execution.state-recovery.trust-any-owner' = 'true', "
                "or make the files your own (chown).",
            )


def _mapped(folder: Path) -> Iterator[int]:
    """The owner of files that this process writes there; none where it cannot."""
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
        yield os.fstat(file.fileno()).st_uid


def _owners(folder: Path, seen: set[tuple[int, int]]) -> Iterator[tuple[Path, int]]:
    """All files and folders with their owners; links, and what they lead to, among them."""
    try:
        own = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise cannot_read(folder, error) from None
    if (own.st_dev, own.st_ino) in seen:
        return
    seen.add((own.st_dev, own.st_ino))
    yield folder, own.st_uid
    for entry in entries:
        with suppress(FileNotFoundError):  # what a job before has left may be removed meanwhile
            yield Path(entry.path), entry.stat(follow_symlinks=False).st_uid
            if entry.is_dir():
                yield from _owners(Path(entry.path), seen)
            elif entry.is_symlink():
                yield Path(entry.path), entry.stat().st_uid


def _name(user: int) -> str:
    with suppress(AttributeError, KeyError):
        return f'"{pwd.getpwuid(user).pw_name}"'
    return str(user)
