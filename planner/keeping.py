"""What operators with state keep, and what bounds it: each says so in its room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from sqlstream.planner.durations import readable
from sqlstream.planner.nodes import Node
from sqlstream.planner.properties import keeps_state

FOR_EVER_HINT = "SET 'table.exec.state.ttl', write the hint STATE_TTL, or group by a window of event time."


@dataclass(frozen=True)
class Kept:
    """``what`` an operator keeps, and ``until`` when; None where nothing bounds it but the number of keys or rows."""

    what: str
    until: str | None


def after(ttl_ms: int, since: str) -> str | None:
    """When what has a time to live goes: ``1 h after its last row``; None for 0, which is for ever."""
    return f"{readable(ttl_ms)} after {since}" if ttl_ms else None
