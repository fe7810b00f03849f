"""The signature of a function, read from CREATE FUNCTION without calling it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlstream.types import DataType


class FunctionKind(Enum):
    """The kind of a user's function: how SQL may call it."""

    SCALAR = "scalar"
    SQL = "sql"
    AGGREGATE = "aggregate"
    TABLE = "table"
    ASYNC = "asynchronous"
    PROCESS = "process"
    ASSIGNER = "assigner"
    TRIGGER = "trigger"
    EVICTOR = "evictor"


@dataclass(frozen=True)
class TableParameter:
    """A table argument of a process function; ``columns``: names and types of all that it reads, None for any."""

    name: str
    columns: tuple[tuple[str, DataType], ...] | None = None


@dataclass(frozen=True)
class ProcessSignature:
    """What a process function takes beside its constants, which are the parameters of ``Function``.

    ``parameters`` are the names of all, in order; ``optional`` those that may be left out. ``keyed``: it has state or
    timers, so that its tables need PARTITION BY. ``clock``: it needs processing time. ``timeless``: some of its rows
    may have no event time. ``pass_through``: the columns of its input come out with its rows.
    """

    parameters: tuple[str, ...]
    tables: tuple[TableParameter, ...]
    descriptors: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    keyed: bool = False
    timers: bool = False
    clock: bool = False
    timeless: bool = False
    pass_through: bool = False


@dataclass(frozen=True)
class Function:
    """A function from CREATE FUNCTION. ``target`` is ``package.module:name``.

    ``returns`` is the type of the result; for a table function the STRUCT of its row.
    ``parameters`` are (name, type) where declared; ``min_arguments``/``max_arguments`` bound a call (None: any).
    ``deterministic`` functions may be computed once and reused, or not at all where nobody needs the result.
    ``process`` is there for process functions. Of a function with a body of SQL ``target`` is that; of one whose
    Python stands in the statement, its text (``in_place``). ``defaults`` are the expressions of parameters that may
    be left out. ``declared`` is the type of the result with its length, as in ``VARCHAR(3)``, where it has one.
    """

    name: str
    target: str
    kind: FunctionKind
    returns: DataType
    parameters: tuple[tuple[str, DataType], ...] = ()
    min_arguments: int = 0
    max_arguments: int | None = None
    deterministic: bool = True
    process: ProcessSignature | None = None
    defaults: tuple[tuple[str, str], ...] = ()
    in_place: bool = False
    declared: str | None = None
