"""Aggregates of users: classes with create, accumulate, merge and finish, which run row by row."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Batch, Columns, Groups, Plan, Source
from sqlstream.udfs.columnar import arrow_array, called, python_values


@dataclass(frozen=True)
class UserState(Accumulator):
    """The state of a user's aggregate, pickled."""

    function: str
    implementation: Callable[[], Any]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.binary(),)

    def lift(self, batch: Batch) -> Columns:
        selection, aggregate = batch.select(self.source), self.implementation()
        states = [self._call(aggregate.create) for _ in range(selection.groups.count)]
        for group, *row in zip(selection.groups.ids.tolist(), *map(python_values, selection.columns), strict=True):
            states[group] = self._changed(aggregate.accumulate, states[group], *row)
        return (_pickled(states),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        aggregate = self.implementation()
        states: dict[int, object] = {}
        for group, other in zip(groups.ids.tolist(), map(pickle.loads, columns[0].to_pylist()), strict=True):
            states[group] = self._changed(aggregate.merge, states[group], other) if group in states else other
        return (_pickled(states[g] if g in states else self._call(aggregate.create) for g in range(groups.count)),)

    def _changed(self, change: Callable[..., object], state: object, *arguments: object) -> object:
        """The state after a change, which returns the new one, or None where it changed the given one."""
        changed = self._call(change, state, *arguments)
        return state if changed is None else changed

    def _call(self, function: Callable[..., object], *arguments: object) -> object:
        return called(self.function, function, arguments)


def _pickled(states: Iterable[object]) -> pa.Array:
    return pa.array([pickle.dumps(state) for state in states], pa.binary())


def user_aggregate(source: Source, function: str, implementation: Callable[[], Any], result: pa.DataType) -> Plan:
    """The plan of a user's aggregate. ``implementation`` creates an instance of the class."""
    return Plan((UserState(source, function, implementation),), partial(_finish, function, implementation, result))


def _finish(function: str, implementation: Callable[[], Any], result: pa.DataType, states: pa.Array) -> pa.Array:
    aggregate = implementation()
    results = [called(function, aggregate.finish, (pickle.loads(state),)) for state in states.to_pylist()]
    return arrow_array(function, results, result)
