"""Windows that merge: the rows of a batch join sessions, and sessions become one.

One pass joins all rows at once. Where it matters in which order rows arrive, because sessions merge that rows fire, or
because some rows find a session closed and others do not, the rows of such keys go one after another, all keys at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.assigners import LATE, Assigned, Sessions, merge_sessions
from sqlstream.udfs.assigners import Windows as Keyed
from sqlstream.udfs.kernel import KEY_HASH, NO_WATERMARK, Domain
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.triggers.trigger import LAST_MOMENT, Run
from sqlstream.udfs.windows.emission import ranks_of
from sqlstream.udfs.windows.instances import Instances, Touched, joined

if TYPE_CHECKING:
    from sqlstream.udfs.windows.call import WindowCall

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Merged(Touched):
    """``key``: the number of the key of each instance."""

    key: Values


class Arrived(NamedTuple):
    """Rows by arrival: the number of each in the batch, its key's number, and its own window."""

    row: Values
    key: Values
    start: Values
    end: Values

    def at(self, index: Values) -> Arrived:
        return Arrived(*(part[index] for part in self))

    @property
    def windows(self) -> Keyed:
        return Keyed(self.key, self.start, self.end)


def merge_rows(call: WindowCall, rows: pa.Table, assigned: Assigned, loaded: pa.Table) -> Merged:
    """The instances after all rows of a batch."""
    names = list(call.kernel.keys)
    keys = dense_ids(joined(loaded.select(names), rows.select(names)), names).ids
    of_row = keys[loaded.num_rows :]
    taken = np.isin(keys[: loaded.num_rows], of_row)
    stored = np.flatnonzero(taken)
    merged = Merged(call.kernel.layout.decode(loaded.take(stored)), stored, taken, keys[stored])
    arrived = Arrived(assigned.row, of_row[assigned.row], assigned.start, assigned.end)
    ordered = _ordered_keys(call, merged, arrived)
    one_by_one = ordered[arrived.key]
    _pass(call, rows, merged, arrived.at(~one_by_one))
    turns = arrived.at(one_by_one)
    rank = ranks_of(turns.key)
    for turn in range(int(rank.max(initial=-1)) + 1):
        _pass(call, rows, merged, turns.at(rank == turn))
    return merged


def _sessions(call: WindowCall, merged: Merged, arrived: Arrived) -> Sessions:
    has_lateness = call.kernel.assigner.domain is Domain.EVENT
    watermark = call.context.watermark if has_lateness else NO_WATERMARK
    stored = Keyed(merged.key, merged.instances.start, merged.instances.end)
    return merge_sessions(stored, arrived.windows, watermark, call.kernel.lateness.allowed)


# --- order ----------------------------------------------------------------------------------------------------


def _ordered_keys(call: WindowCall, merged: Merged, arrived: Arrived) -> Values:
    """By number of key: must its rows go one after another?"""
    sessions = _sessions(call, merged, arrived)
    ordered = np.zeros(int(max(merged.key.max(initial=-1), arrived.key.max(initial=-1))) + 1, bool)
    taken = np.flatnonzero(sessions.row != LATE)
    if len(taken) == 0:
        return ordered
    growth = _growth(sessions, merged, arrived, taken)
    count = len(sessions.windows.start)
    bridged = np.bincount(sessions.stored, minlength=count) > 1
    bridged[growth.session[~growth.joins]] = True
    is_event_time = call.kernel.assigner.domain is Domain.EVENT
    # How sessions grow that rows join to each other is not known yet, but no row's own window ends after its session.
    end = np.where(bridged[growth.session], arrived.end[growth.order], growth.end)
    closed = (call.context.watermark >= end - LAST_MOMENT) & is_event_time
    some, every = np.zeros(count, bool), np.ones(count, bool)
    np.logical_or.at(some, growth.session, closed)
    np.logical_and.at(every, growth.session, closed)
    trigger = call.kernel.trigger
    matters = (bridged & (some | trigger.looks_at_rows)) | (some & ~every) | trigger.looks_at_windows
    ordered[sessions.windows.key[matters]] = True
    return ordered


class _Growth(NamedTuple):
    """Rows by session and arrival: ``session`` of each, the bounds of the session with it, and whether it meets what
    was there before it."""

    order: Values
    session: Values
    start: Values
    end: Values
    joins: Values


def _growth(sessions: Sessions, merged: Merged, arrived: Arrived, taken: Values) -> _Growth:
    session = sessions.row[taken]
    order = np.argsort(session, kind="stable")
    session, chosen = session[order], taken[order]
    begins = np.flatnonzero(np.diff(session, prepend=-1))
    known = np.full(len(sessions.windows.start), -1)
    known[sessions.stored] = np.arange(len(sessions.stored))
    before = known[session[begins]]
    start, end = arrived.start[chosen], arrived.end[chosen]
    sources = np.bincount(sessions.stored, minlength=len(known))[session[begins]]
    first_start, first_end = start[begins].copy(), end[begins].copy()
    one, several = sources == 1, sources > 1
    first_start[one], first_end[one] = merged.instances.start[before[one]], merged.instances.end[before[one]]
    whole = session[begins][several]
    first_start[several], first_end[several] = sessions.windows.start[whole], sessions.windows.end[whole]
    lengths = np.diff(begins, append=len(session))
    low = _running(np.minimum, start, begins, first_start, lengths)
    high = _running(np.maximum, end, begins, first_end, lengths)
    previous_low, previous_high = np.roll(low, 1), np.roll(high, 1)
    previous_low[begins], previous_high[begins] = first_start, first_end
    return _Growth(chosen, session, low, high, (start <= previous_high) & (previous_low <= end))


def _running(extreme: np.ufunc, values: Values, begins: Values, first: Values, lengths: Values) -> Values:
    """The extreme of each stretch of values up to each place, and of the stretch's ``first``."""
    ranks = np.unique(np.concatenate([values, first]), return_inverse=True)
    ordered, rank = ranks[0], ranks[1]
    of_value, of_first = rank[: len(values)], rank[len(values) :]
    stretch = np.repeat(np.arange(len(begins)), lengths)
    # Stretches on levels of their own, so that one accumulation serves all of them.
    level = stretch * len(ordered) if extreme is np.maximum else -stretch * len(ordered)
    at_least = extreme(of_value, np.repeat(of_first, lengths)) + level
    found: Values = ordered[extreme.accumulate(at_least) - level]
    return found


# --- passes ---------------------------------------------------------------------------------------------------


def _pass(call: WindowCall, rows: pa.Table, merged: Merged, arrived: Arrived) -> None:
    """Joins rows whose order does not matter, and fires what they fire."""
    if len(arrived.row) == 0:
        return
    sessions = _sessions(call, merged, arrived)
    late = arrived.at(sessions.row == LATE)
    call.kernel.lateness.report(rows.take(late.row), late.start, late.end, call.context)
    taken = np.flatnonzero(sessions.row != LATE)
    if len(taken) == 0:
        return
    growth = _growth(sessions, merged, arrived, taken)
    touched, number = _by_arrival(growth, len(sessions.windows.start))
    source = np.flatnonzero(np.isin(sessions.stored, touched))
    groups = number[sessions.stored[source]]
    first = growth.order[np.flatnonzero(np.diff(growth.session, prepend=-1))]
    first = np.sort(first)
    keys = rows.select([KEY_HASH, *call.kernel.keys]).take(arrived.row[first])
    joint = _joined(call, merged.instances.at(source), groups, keys, sessions, touched, arrived.row[first])
    run, hull = _run(call, rows, joint, arrived, growth, number)
    call.fire_rows(joint, run, run.row, hull)
    place = np.full(len(touched), -1)
    place[groups[::-1]] = merged.place[source[::-1]]
    _replace(merged, source, joint, arrived.key[first], place)


def _by_arrival(growth: _Growth, count: int) -> tuple[Values, Values]:
    """Sessions that have rows, by the arrival of their first one, and the number of each of all sessions there."""
    begins = np.flatnonzero(np.diff(growth.session, prepend=-1))
    touched = growth.session[begins][np.argsort(growth.order[begins])]
    number = np.full(count, -1)
    number[touched] = np.arange(len(touched))
    return touched, number


def _joined(
    call: WindowCall, sources: Instances, groups: Values, keys: pa.Table, sessions: Sessions, touched: Values,
    first: Values,
) -> Instances:  # fmt: skip
    """One instance per session, of those that were there. Results of sessions that are no more are withdrawn."""
    count = len(touched)
    start, end = sessions.windows.start[touched], sessions.windows.end[touched]
    joint = call.kernel.layout.fresh(keys, start, end, call.held.merge(sources, groups, count))
    joint.trigger = call.kernel.trigger.merge(sources.trigger, groups, call.windows(sources), call.windows(joint))
    np.logical_or.at(joint.filled, groups, sources.filled)
    np.maximum.at(joint.panes, groups, sources.panes)
    alone = np.bincount(groups, minlength=count)[groups] == 1
    withdrawn = np.flatnonzero(sources.emitted & ~alone)
    if len(withdrawn):
        call.emitted.append(call.kernel.emission.withdraw(sources, withdrawn, first[groups[withdrawn]]))
    kept = np.flatnonzero(sources.emitted & alone)
    joint.keep_last(groups[kept], sources.last.take(kept))
    return joint


def _run(
    call: WindowCall, rows: pa.Table, joint: Instances, arrived: Arrived, growth: _Growth, number: Values
) -> tuple[Run, tuple[Values, Values]]:
    of = number[growth.session]
    order = np.argsort(of, kind="stable")
    chosen = growth.order[order]
    ends = np.cumsum(np.bincount(of, minlength=joint.count))
    starts = ends - np.diff(ends, prepend=0)
    run = Run(rows, arrived.row[chosen], starts, ends, call.windows(joint), arrived.start[chosen])
    return run, (growth.start[order], growth.end[order])


def _replace(merged: Merged, source: Values, joint: Instances, key: Values, place: Values) -> None:
    kept = np.ones(merged.instances.count, bool)
    kept[source] = False
    merged.instances = merged.instances.at(kept).followed_by(joint)
    merged.key = np.concatenate([merged.key[kept], key])
    merged.place = np.concatenate([merged.place[kept], place])
