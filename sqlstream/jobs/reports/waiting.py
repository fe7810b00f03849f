"""Words what waits in the checkpoint of a job that has paused at the end of its input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.times import exact_text
from sqlstream.udfs.waiting import Pending

_WORDS = {
    Pending.ROWS_IN_WINDOWS: ("row", "in open windows"),
    Pending.ROWS: ("row", "to be taken in order of time"),
    Pending.TIMERS: ("timer", ""),
    Pending.HELD: ("row", "behind barriers"),
    Pending.WINDOWS: ("window", "to be closed"),
}


@dataclass(frozen=True)
class Waiting:
    """``count`` of ``what`` (a value of ``Pending``) wait in the operator with this number, counted from the top. The
    watermark or, where ``by_clock``, the clock ends the wait of the first at ``first_ms`` and that of the last at
    ``last_ms``, in milliseconds since 1970; None where no time does."""

    operator: int
    what: str
    count: int
    by_clock: bool = False
    first_ms: int | None = None
    last_ms: int | None = None

    def __str__(self) -> str:
        thing, where = _WORDS[Pending(self.what)]
        words = [f"{self.count:,} {thing} waits" if self.count == 1 else f"{self.count:,} {thing}s wait", where]
        if self.first_ms is not None and self.last_ms is not None:
            several = self.last_ms > self.first_ms
            clock = f"{'time' if self.by_clock else 'watermark'}{'s' if several else ''}"
            words.append(f"for the {clock} {exact_text(self.first_ms)}")
            words += [f"to {exact_text(self.last_ms)}"] if several else []
        return " ".join(word for word in words if word)


def waiting_text(counts: Sequence[Waiting]) -> str:
    """All that waits in words, apart by operator where there are several."""
    several = len({waiting.operator for waiting in counts}) > 1
    return "; ".join(f"operator {waiting.operator}: {waiting}" if several else str(waiting) for waiting in counts)


def waiting_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Waiting, ...]:
    return tuple(Waiting(**value) for value in values)
