"""What is known of a function from CREATE FUNCTION without calling it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlstream.types import DataType


class FunctionKind(Enum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    TABLE = "table"
    ASYNC = "asynchronous"
    PROCESS = "process"
    ASSIGNER = "assigner"
    TRIGGER = "trigger"
    EVICTOR = "evictor"


@dataclass(frozen=True)
class Function:
    """A function from CREATE FUNCTION. ``target`` is ``package.module:name``.

    ``returns`` is the type of the result; for a table function the STRUCT of its row.
    ``parameters`` are (name, type) where declared; ``min_arguments``/``max_arguments`` bound a call (None: any).
    ``deterministic`` functions may be computed once and reused, or not at all where nobody needs the result.
    """

    name: str
    target: str
    kind: FunctionKind
    returns: DataType
    parameters: tuple[tuple[str, DataType], ...] = ()
    min_arguments: int = 0
    max_arguments: int | None = None
    deterministic: bool = True
