"""Coroutines of users as lookup sources.

One row, or None where there is none::

    async def geo(ip: str) -> Place | None: ...

Several rows, as a list or one by one::

    async def orders(customer: int) -> list[Order]: ...

    async def orders(customer: int) -> AsyncIterator[Order]:
        yield Order(…)

A row is a NamedTuple, a dataclass, a dict, a tuple or, where it has one column, its bare value; a list is always
several rows. What needs a connection is a class, of which each worker process makes one::

    class Geo:
        async def open(self) -> None: ...                       # optional, before the first call
        async def eval(self, ip: str) -> Place | None: ...
        async def close(self) -> None: ...                      # optional, when the process lets go of it

With BATCH, a function that takes many keys at once, one list per parameter, and answers each in their order::

    @lookup(batch=True)
    async def geo(ips: list[str]) -> list[Place | None]: ...

Others are called once per key of a batch, at the same time. All calls of a process run on one event loop: what blocks,
blocks all (``await asyncio.to_thread(…)``). A row with NULL among the arguments is not asked for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import pickle
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlstream.types import DataType
from sqlstream.udfs.columnar import arrow_value
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.signature import Function, options_of


def function_source(
    function: Function,
    implementation: object,
    request: Request,
    dumps: Callable[[object], bytes] = pickle.dumps,
) -> FunctionSource:
    """The lookup source for a user's function: it calls ``implementation``, which ``dumps`` pickles for the workers."""
    row = tuple(name for name, _ in _fields(function.returns))
    batched = options_of(implementation).batch
    return FunctionSource(function.name, function.target, request, row, batched, dumps(implementation))


def _fields(struct: DataType) -> list[tuple[str, DataType]]:
    return [member for member in struct.args if isinstance(member, tuple)]


@dataclass(frozen=True)
class FunctionSource:
    """A lookup source that calls a user's function. ``row`` names the members of the STRUCT that the function returns,
    in order; ``request.columns`` are some of them.
    """

    name: str
    target: str
    request: Request
    row: tuple[str, ...]
    batched: bool
    payload: bytes = field(repr=False)

    async def open(self) -> FunctionClient:
        implementation: Any = pickle.loads(self.payload)
        if not isinstance(implementation, type):
            return FunctionClient(self, implementation)
        instance: Any = implementation()
        if hasattr(instance, "open"):
            await _finished(instance.open())
        return FunctionClient(self, instance.eval, getattr(instance, "close", None))


class FunctionClient:
    """The client of a ``FunctionSource``, which awaits the user's coroutine."""

    def __init__(
        self, source: FunctionSource, call: Callable[..., Any], close: Callable[[], object] | None = None
    ) -> None:
        self._source, self._call, self._close = source, call, close
        types = [(name, kind.to_arrow()) for name, kind in source.request.columns]
        self._columns = [(name, source.row.index(name), kind, pa.types.is_nested(kind)) for name, kind in types]
        self._single_map = len(source.row) == 1 and all(pa.types.is_map(kind) for _, kind in types)

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        if self._source.batched:
            return await self._ask_at_once(keys)
        if len(keys) == 1:
            return [self._rows(await self._called(keys[0]))]
        asked = await asyncio.gather(*(self._called(key) for key in keys), return_exceptions=True)
        for answer in asked:
            if isinstance(answer, BaseException):
                raise answer
        return [self._rows(answer) for answer in asked]

    async def _ask_at_once(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        answers = await self._called([list(values) for values in zip(*keys, strict=True)])
        if not isinstance(answers, Sequence) or len(answers) != len(keys):
            shown_count = len(answers) if isinstance(answers, Sequence) else f"{type(answers).__name__}, no list of"
            raise ValueError(f'function "{self._source.name}" returned {shown_count} answers for {len(keys)} keys')
        return [self._rows(answer) for answer in answers]

    async def _called(self, arguments: Sequence[object]) -> object:
        try:
            return await _finished(self._call(*arguments))
        except Exception as error:  # the text of a KeyError is only the key
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._close is not None:
            await _finished(self._close())

    # --- rows ---

    def _rows(self, answer: object) -> list[Row]:
        if answer is None:
            return []
        return [self._row(row) for row in (answer if isinstance(answer, list) else [answer])]

    def _row(self, row: object) -> Row:
        return tuple(self._value(row, *column) for column in self._columns)

    def _value(self, row: object, name: str, position: int, kind: pa.DataType, nested: bool) -> object:
        value = self._member(row, name, position)
        try:
            return arrow_value(value, kind) if nested else value
        except (TypeError, ValueError, AttributeError):
            return value  # the operator reports wrong types of all sources

    def _member(self, row: object, name: str, position: int) -> object:
        if isinstance(row, dict) and not self._single_map:
            return row.get(name)
        if dataclasses.is_dataclass(row):
            return getattr(row, name)
        if not isinstance(row, tuple) and len(self._source.row) == 1:
            return row
        if not isinstance(row, tuple) or len(row) != len(self._source.row):
            columns = ", ".join(self._source.row)
            raise ValueError(f'function "{self._source.name}" returned {row!r}, which is no row of ({columns})')
        return row[position]


async def _finished(result: object) -> object:
    """The result of a call, awaited where it is to be, and as a list where it comes one by one."""
    if inspect.isawaitable(result):
        awaited: Awaitable[object] = result
        result = await awaited
    if isinstance(result, AsyncIterable):
        return [row async for row in result]
    return result
