"""Merging window sets: the session that an added window becomes part of, and the sessions that are merged for it.

Steps: ``add_window`` (``expect_window``, ``expect_merged``, ``expect_merged_from`` in any order) and ``retire``.
"""

from __future__ import annotations

import numpy as np

from sqlstream.testing.case_format import Case
from sqlstream.udfs.assigners.assigner import Windows, merge_sessions
from sqlstream.udfs.kernel import NO_WATERMARK
from tests.peers.below_sql.steps import Step, check, play, unknown_step

Bounds = list[int]
_KEY = 0


def run(case: Case) -> None:
    play(case.input, WindowSet().perform)


class WindowSet:
    """The sessions of one key."""

    def __init__(self) -> None:
        self._live: list[Bounds] = []

    def perform(self, step: Step) -> None:
        match step["op"]:
            case "add_window":
                self._add(step)
            case "retire":
                self._live.remove(step["window"])
            case _:
                raise unknown_step(step)

    def _add(self, step: Step) -> None:
        found = merge_sessions(_windows(self._live), _windows([step["window"]]), NO_WATERMARK)
        _, starts, ends = (part.tolist() for part in found.windows)
        sessions = [list(bounds) for bounds in zip(starts, ends, strict=True)]
        into = sessions[found.row[0]]
        parts = [self._live[number] for number in np.flatnonzero(found.stored == found.row[0]).tolist()]
        check("window", step["expect_window"], into)
        check("merged", step["expect_merged"], bool(parts) and parts != [into])
        if "expect_merged_from" in step:
            check("merged from", sorted(step["expect_merged_from"]), sorted(parts))
        self._live = sessions


def _windows(bounds: list[Bounds]) -> Windows:
    start, end = np.array(bounds, np.int64).reshape(-1, 2).T
    return Windows(np.full(len(start), _KEY), start, end)
