"""Barriers of several channels, element by element: what passes, which channels wait, what becomes of barriers.

Steps: ``record``, ``barrier``, ``cancel_barrier`` (each with a ``channel``, the last two with a ``checkpoint``) and
``end_of_channel``. What is expected stands in ``expected``: a ``timeline`` of all events by step, or ``events`` by
outputs before them, the ``output_order``, ``assertions`` behind steps and what holds in the end (``final``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import NotDriven
from sqlstream.udfs.barriers.alignment import BarrierOutcome, Items, MarkKind, Memory, Passage, align, track
from tests.peers.below_sql.steps import Step, check, play, unknown_step

_KINDS = {
    "record": MarkKind.ROW,
    "barrier": MarkKind.MARKER,
    "cancel_barrier": MarkKind.CANCEL,
    "end_of_channel": MarkKind.END,
}
_REASONS = {
    "CHECKPOINT_DECLINED_SUBSUMED": BarrierOutcome.SUBSUMED,
    "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER": BarrierOutcome.CANCELLED,
}
_END = "end_of_input"
_ENDED = "the case aborts a barrier when a channel ends"
_ARRIVED = "The dialect counts an ended channel as arrived."

Element = tuple[int, MarkKind, int, int]
"""Channel, kind, barrier and number of the step."""


def run(case: Case) -> None:
    expected = case.outcome
    told = [*expected.get("timeline", ()), *expected.get("events", ())]
    if case.config.get("checkpoints_after_channel_end") is False or any(e.get("reason") == _END for e in told):
        raise NotDriven(_ENDED, _ARRIVED)
    channels = case.config.get("channels") or max(step["channel"] for step in case.input) + 1
    barriers = ChannelBarriers(channels, held="at-least-once" not in case.config.get("mode", ""))

    def perform(step: Step) -> None:
        number = barriers.take(step)
        for assertion in expected.get("assertions", ()):
            if assertion["after"] == number:
                barriers.check(assertion)

    play(case.input, perform)
    barriers.finish()
    if "timeline" in expected:
        check("timeline", _timeline(expected["timeline"]), barriers.timeline)
    if "output_order" in expected:
        _check_order(expected, barriers)
    barriers.check(expected.get("final", {}))


class ChannelBarriers:
    """The barriers of some channels; where ``held`` is False they are only tracked."""

    def __init__(self, channels: int, *, held: bool) -> None:
        self._channels = channels
        self._aligns = held
        self._memory = Memory()
        self._waiting: list[Element] = []
        self._events: list[tuple[int, BarrierOutcome, int]] = []
        self._taken = 0
        self.rows: list[int] = []
        self.aligned_behind: list[tuple[int, int]] = []
        """Each aligned barrier, and how many rows had passed before it."""

    def take(self, step: Step) -> int:
        """The number of the step, from 0."""
        if step["op"] not in _KINDS:
            raise unknown_step(step)
        number, self._taken = self._taken, self._taken + 1
        self._pass([*self._waiting, (step["channel"], _KINDS[step["op"]], step.get("checkpoint", 0), number)], number)
        return number

    def finish(self) -> None:
        """The input has ended; what becomes of a pending barrier then is no part of the cases."""
        if self._aligns:
            passage = align(self._memory.copy(), _items(self._waiting), self._channels, 0, ends=True)
            self._note(passage, self._waiting)

    def _pass(self, elements: list[Element], number: int) -> None:
        items = _items(elements)
        taken = align if self._aligns else track
        passage = taken(self._memory, items, self._channels, 0)
        self._note(passage, elements)
        self._waiting = [elements[position] for position in passage.held.tolist()]
        self._events += [(number, event.outcome, event.id) for event in passage.events]

    def _note(self, passage: Passage, elements: list[Element]) -> None:
        for part in passage.parts:
            if part.begins and part.barrier is not None:
                self.aligned_behind.append((part.barrier, len(self.rows)))
            self.rows += [elements[position][3] for position in part.rows.tolist()]

    @property
    def timeline(self) -> list[list[Any]]:
        """Step, event and barrier."""
        return [[step, _event(outcome), barrier] for step, outcome, barrier in self._events]

    @property
    def aborted(self) -> list[tuple[int, BarrierOutcome]]:
        return [(barrier, outcome) for _, outcome, barrier in self._events if outcome is not BarrierOutcome.ALIGNED]

    @property
    def triggered(self) -> list[int]:
        return [barrier for _, outcome, barrier in self._events if outcome is BarrierOutcome.ALIGNED]

    def check(self, expected: dict[str, Any]) -> None:
        for what, value in expected.items():
            if what != "after":
                check(what, _REASONS[value].value if what == "last_abort_reason" else value, self._found(what))

    def _found(self, what: str) -> Any:
        pending = self._memory.pending
        blocked = sorted(pending[0].arrived) if pending and self._aligns else []
        last_aborted, last_outcome = self.aborted[-1] if self.aborted else (None, None)
        known = {
            "blocked_channels": blocked,
            "latest_checkpoint_seen": self._memory.newest,
            "last_aborted": last_aborted,
            "last_abort_reason": last_outcome.value if last_outcome else None,
            "last_triggered": self.triggered[-1] if self.triggered else 0,
            "triggered": self.triggered,
            "triggered_count": len(self.triggered),
            "aborted_count": len(self.aborted),
            "pending": bool(pending),
            "pending_ids": [p.id for p in pending],
            "checkpoint_events": [b if outcome is BarrierOutcome.ALIGNED else -b for _, outcome, b in self._events],
        }
        if what not in known:
            raise NotDriven(f'nothing tells "{what}"', "The README of the cases lists what may be expected.")
        return known[what]


def _items(elements: list[Element]) -> Items:
    channel, kind, barrier, _ = np.array(elements, np.int64).reshape(-1, 4).T
    return Items(channel, kind, barrier)


def _event(outcome: BarrierOutcome) -> str:
    return "trigger" if outcome is BarrierOutcome.ALIGNED else "abort"


def _timeline(expected: list[Step]) -> list[list[Any]]:
    return [[event["after"], event["event"], event["checkpoint"]] for event in expected]


def _check_order(expected: dict[str, Any], barriers: ChannelBarriers) -> None:
    """Ends of channels are outputs in the case, and none here."""
    outputs = expected["output_order"]
    check("output_order", [o["input_index"] for o in outputs if o["op"] == "record"], barriers.rows)
    check("events", [e["checkpoint"] for e in expected["events"]], [barrier for _, _, barrier in barriers.timeline])
    check("aligned", list(_rows_before(expected)), [list(found) for found in barriers.aligned_behind])


def _rows_before(expected: dict[str, Any]) -> Iterator[list[int]]:
    for event in expected["events"]:
        if event["event"] == "trigger":
            before = expected["output_order"][: event["before_output"]]
            yield [event["checkpoint"], sum(output["op"] == "record" for output in before)]
