"""Operators on the same keys in one call of Spark, one above the other: each takes what the one below has emitted.

A stage is called as it would be behind an exchange of its own: where rows come for it, or its timer is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sqlstream.udfs.driver import Emitted, Folded, GroupContext, unfolded
from sqlstream.udfs.exchange import Content
from sqlstream.udfs.handover import Handover
from sqlstream.udfs.kernel import Kernel, StateKey, Store
from sqlstream.udfs.spark.call import Arrived, held_above, run
from sqlstream.udfs.spark.clocks import Clocks
from sqlstream.udfs.spark.group_entry import KEY, GroupEntry

_FEW = 8


@dataclass(frozen=True)
class Stage:
    """``late_table``: where the kernel's late rows go. ``handover``: how it takes the rows of the stage below; None for
    the lowest."""

    kernel: Kernel
    late_table: str | None = None
    handover: Handover | None = None

    def handed(self, below: Kernel, emitted: Mapping[bool, Sequence[Emitted]]) -> dict[Content, pa.Table]:
        """The results of the kernel below as input rows of this stage, apart by whether they are ahead of the
        watermark."""
        contents = ((Content.AHEAD, emitted[True]), (Content.ROWS, emitted[False]))
        return {content: self._rows(below, emissions) for content, emissions in contents if emissions}

    def _rows(self, below: Kernel, emitted: Sequence[Emitted]) -> pa.Table:
        """Results that are folded are combined part by part."""
        assert self.handover is not None, "the lowest stage takes blobs"
        plain = [emission for emission in emitted if not isinstance(emission, Folded)]
        if len(plain) == len(emitted):
            return self.kernel.combine(self.handover.rows(plain))
        return pa.concat_tables(
            self.kernel.combine(self.handover.rows([emission])) for emission in unfolded(below, emitted)
        )


@dataclass(frozen=True)
class Ran:
    """The outcome of a call for one stage; ``context`` is None if the stage was not called.

    ``held``: the time that operators above must not reach, END_OF_TIME when that ends, None for no change.
    """

    before: GroupEntry
    after: GroupEntry
    context: GroupContext | None = None
    held: int | None = None


class StageStore:
    """The state of one stage, given by its ``number``, within the state that all stages share."""

    def __init__(self, whole: Store, number: int) -> None:
        self._whole = whole
        self._place = number
        self._first: tuple[StateKey, ...] | None = None

    @property
    def began_with(self) -> tuple[StateKey, ...]:
        """The keys that the stage has asked for first, as far as they are few."""
        return self._first if self._first is not None and len(self._first) <= _FEW else ()

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        own = [self._own(key) for key in keys]
        self._first = tuple(own) if self._first is None else self._first
        return self._whole.get(own)

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        self._whole.put({self._own(key): value for key, value in entries.items()})

    def _own(self, key: StateKey) -> StateKey:
        return (f"{self._place}/{key[0]}", key[1]) if self._place else key


def entry_key(number: int) -> StateKey:
    """The key of a stage's entry in the shared state."""
    return KEY[0], KEY[1] + number


def run_stages(
    stages: Sequence[Stage], clocks: Clocks, parts: Sequence[Store], entries: Sequence[GroupEntry], arrived: Arrived
) -> list[Ran]:
    """Lets rows and clocks reach all stages, the lowest first."""
    runs: list[Ran] = []
    for number, (stage, stage_store, entry) in enumerate(zip(stages, parts, entries, strict=True)):
        if number:
            below = runs[-1].context
            handed = {} if below is None else stage.handed(stages[number - 1].kernel, below.emitted)
            arrived = Arrived(arrived.watermark_ms, handed=handed)
        due = 0 < entry.spark_timer <= arrived.watermark_ms
        called = bool(arrived.blobs or arrived.handed) or due or len(stages) == 1
        runs.append(_ran(stage.kernel, clocks, stage_store, entry, arrived) if called else Ran(entry, entry))
    return runs


def _ran(kernel: Kernel, clocks: Clocks, stage_store: Store, entry: GroupEntry, arrived: Arrived) -> Ran:
    context, after = run(kernel, clocks, stage_store, entry, arrived)
    timer = clocks.spark_timer(after.event_timer, after.processing_timer, after.watermark) or 0
    if arrived.held_back and timer <= arrived.watermark_ms:
        timer = 0  # the next micro-batch says again what is held, or that nothing is
    return Ran(entry, replace(after, spark_timer=timer), context, held_above(context, entry, arrived))
