"""The types of what plan nodes answer about themselves (``planner/node.py``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from sqlglot import exp

from sqlstream.planner.catalog import RowKind, Table, TimeDomain
from sqlstream.planner.intervals import readable
from sqlstream.planner.windows import Window
from sqlstream.udfs.lookup.source import Comparison

Kinds = frozenset[RowKind]
Keys = frozenset[frozenset[str]]
"""Sets of fields, each of which is a key."""

Accepts = Callable[[Table, Comparison], bool]
"""Whether the source of a table evaluates a comparison itself."""

_KIND_NAMES = (
    (RowKind.INSERT, "I"),
    (RowKind.UPDATE_BEFORE, "UB"),
    (RowKind.UPDATE_AFTER, "UA"),
    (RowKind.DELETE, "D"),
)


def changelog_text(kinds: Kinds) -> str:
    """The kinds of rows as the option ``changelog-mode`` spells them: ``I,UB,UA,D``."""
    return ",".join(name for kind, name in _KIND_NAMES if kind in kinds)


class ArrivalOrder(Enum):
    """The order in which the rows of a node arrive."""

    SOURCE = "source"  # as the source delivered them
    MIXED = "mixed"  # several sources, each in its order
    WINDOW = "window"  # by the end of windows, unordered within
    ANSWERS = "answers"  # as lookups were answered


@dataclass(frozen=True)
class WindowInfo:
    """The names of the window columns that a node's rows have; None for one that was projected away. ``domain`` is the
    time domain of the window.

    ``keys``: the fields by which a session was assigned, None once one of them was projected away.
    """

    window: Window
    start: str | None
    end: str | None
    time: str | None
    domain: TimeDomain
    keys: tuple[str, ...] | None = ()

    @property
    def columns(self) -> tuple[str | None, str | None, str | None]:
        """The names of the window's start, end and time."""
        return self.start, self.end, self.time


# --- state ----------------------------------------------------------------------------------------------------

UNBOUNDED_STATE_HINT = "SET 'table.exec.state.ttl', write the hint STATE_TTL, or group by a window of event time."


@dataclass(frozen=True)
class StateDescription:
    """A description of state for EXPLAIN: ``what`` an operator stores, and ``until`` when; None if it is never
    freed.
    """

    what: str
    until: str | None


def expiry_text(ttl_ms: int, since: str) -> str | None:
    """Says when state with a time to live is freed: ``1 h after its last row``, of which ``since`` is the last part.
    None if ``ttl_ms`` is 0, which means never.
    """
    return f"{readable(ttl_ms)} after {since}" if ttl_ms else None


class WaitsFor(Enum):
    """What rows may wait for in state, other than time. The watermark is held back for them meanwhile."""

    ANSWERS = "answers"
    """To lookups: the rows go on without further input."""
    BARRIERS = "barriers"
    MATCHES = "matches"
    """That are not decided: later rows may make them longer."""


@dataclass(frozen=True)
class FieldsRead:
    """The fields that an operator reads from its input: ``names``, among them ``keys`` and ``time``. ``computed``: the
    expressions over the input that it reads as well, by the names of the columns that its kernel takes.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...] = ()
    time: str | None = None
    computed: Mapping[str, exp.Expression] = field(default_factory=dict)


# --- EXPLAIN ADVICE -------------------------------------------------------------------------------------------


class Topic(IntEnum):
    """The topics of remarks in EXPLAIN ADVICE, most important first."""

    LATENCY = 0
    KEPT_ROWS = 1
    UNUSED_WATERMARKS = 2
    MANY_WINDOWS = 3
    ARRIVAL = 4
    ONE_AT_A_TIME = 5


Remark = tuple[Topic, str]

ShownNames = Mapping[str, str | None]
"""For fields of a node the column of the result that shows the field, None for those whose order nobody sees; others
are called by their own names.
"""
