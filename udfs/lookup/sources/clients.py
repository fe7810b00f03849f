"""What the clients of external systems share: round trips for several requests, and error messages.

Requests that would wait for a connection are sent together in one round trip, and get an answer each. The costs of
waking up, of statements and of system calls are then paid per round trip, not per request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from sqlstream.errors import ConnectorError
from sqlstream.udfs.lookup.source import Key, Request
from sqlstream.udfs.texts import is_text, no_text

Answer = TypeVar("Answer")


class _Asked(Generic[Answer]):
    """A request. ``trip``: all requests of its round trip, while ``task`` performs it. ``alone``: it is not combined
    with others."""

    __slots__ = ("alone", "answer", "keys", "task", "trip")

    def __init__(self, keys: Sequence[Key], answer: asyncio.Future[Sequence[Answer]]) -> None:
        self.keys = keys
        self.answer = answer
        self.alone = False
        self.trip: Sequence[_Asked[Answer]] = ()
        self.task: asyncio.Task[None] | None = None


class SharedRoundTrips(Generic[Answer]):
    """Combines concurrent requests to few round trips: at most ``at_once`` are in flight, each of about ``most`` keys.

    ``fetch`` answers keys in their order. If it fails for several requests at once, each is sent again alone, so that
    only those fail that cause the error; errors for which ``of_all`` is true, such as a broken connection, fail all at
    once.
    """

    def __init__(
        self,
        fetch: Callable[[Sequence[Key]], Awaitable[Sequence[Answer]]],
        at_once: int,
        most: int,
        of_all: Callable[[Exception], bool],
    ) -> None:
        self._fetch, self._at_once, self._most, self._of_all = fetch, at_once, most, of_all
        self._waiting: deque[_Asked[Answer]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, keys: Sequence[Key]) -> Sequence[Answer]:
        """The rows of each key, in the order of the keys. Cancelling a call does not affect other calls."""
        loop = asyncio.get_running_loop()
        asked: _Asked[Answer] = _Asked(keys, loop.create_future())
        self._waiting.append(asked)
        self._start(loop)
        try:
            return await asked.answer
        except asyncio.CancelledError:
            if asked.task is not None and all(other.answer.done() for other in asked.trip):
                asked.task.cancel()
            raise

    async def close(self) -> None:
        """Cancels all round trips."""
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and len(self._tasks) < self._at_once:
            task = loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Called also when a trip was cancelled with its last request while others wait."""
        self._tasks.discard(task)
        if self._waiting:
            self._start(task.get_loop())

    async def _run(self) -> None:
        while trip := self._next():
            await self._travel(trip)

    def _next(self) -> list[_Asked[Answer]]:
        """The requests that have waited longest and are still wanted."""
        group: list[_Asked[Answer]] = []
        keys = 0
        while self._waiting and (not group or self._fits(self._waiting[0], group, keys)):
            asked = self._waiting.popleft()
            if not asked.answer.done():
                group.append(asked)
                keys += len(asked.keys)
        return group

    def _fits(self, asked: _Asked[Answer], group: Sequence[_Asked[Answer]], keys: int) -> bool:
        return not asked.alone and not group[0].alone and keys + len(asked.keys) <= self._most

    async def _travel(self, trip: Sequence[_Asked[Answer]]) -> None:
        task = asyncio.current_task()
        for asked in trip:
            asked.trip, asked.task = trip, task
        try:
            self._arrive(trip, await self._fetch([key for asked in trip for key in asked.keys]))
        except Exception as error:
            self._fail(trip, error)
        finally:
            for asked in trip:  # the task is on its way with others soon
                asked.task = None

    def _arrive(self, trip: Sequence[_Asked[Answer]], answers: Sequence[Answer]) -> None:
        begin = 0
        for asked in trip:
            end = begin + len(asked.keys)
            if not asked.answer.done():
                asked.answer.set_result(answers[begin:end])
            begin = end

    def _fail(self, trip: Sequence[_Asked[Answer]], error: Exception) -> None:
        again = len(trip) > 1 and not self._of_all(error)
        for asked in reversed(trip):
            if again:
                asked.alone = True
                self._waiting.appendleft(asked)
            elif not asked.answer.done():
                asked.answer.set_exception(error)


# --- errors: table, key, cause and advice ---------------------------------------------------------------------


NO_EQUALITY = "SS570"
WRONG_ANSWER = "SS573"
UNREADABLE = "SS576"
NO_PACKAGE = "SS577"

_SHOWN_KEYS = 3
_SHOWN_BODY = 200


def keys_text(request: Request, keys: Sequence[Key]) -> str:
    """The keys of a request for messages, such as ``key (carrier = AA)``; the first three and the number of the others
    if there are more.
    """
    names = [name for name, _ in request.keys]
    texts = [", ".join(f"{n} = {v}" for n, v in zip(names, key, strict=True)) for key in keys[:_SHOWN_KEYS]]
    listed = ", ".join(f"({text})" for text in texts)
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    return f"{'key' if len(keys) == 1 else 'keys'} {listed}{more}"


def require_texts(table: str, request: Request, keys: Sequence[Key]) -> None:
    """Checks that the keys can be sent as text. Raises ConnectorError SS585 if one contains an unpaired surrogate,
    which no external system accepts.
    """
    for key in keys:
        for (name, _), value in zip(request.keys, key, strict=True):
            if isinstance(value, str) and not is_text(value):
                raise no_text(f'key "{name}" of table "{table}"', value)


def beginning(text: str) -> str:
    """The first characters of a text, on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_BODY else f"{line[:_SHOWN_BODY]}…"


def wrong_answer(table: str, column: str, keys: str, cause: str) -> ConnectorError:
    """Returns the error for a value of ``column`` in an answer that does not fit the column's type. ``keys``: the keys
    as text, for the message; ``cause`` says why, and may name the column, or what in it.
    """
    if cause.startswith('column "'):
        message = f'table "{table}" cannot be read for {keys}: {cause}'
    else:
        message = f'column "{column}" of table "{table}" cannot be read for {keys}: {cause}'
    return ConnectorError(WRONG_ANSWER, message, hint="Correct the value where it is kept, or the type of the column.")


def no_equality(table: str, column: str, what: str) -> ConnectorError:
    """Returns the error for a lookup join whose condition lacks an equality on ``column``, from which the request is
    built. ``what``: what is built from it, such as "key" for Redis.
    """
    message = f'lookup of table "{table}" has no equality on column "{column}", which its {what} is made of'
    return ConnectorError(NO_EQUALITY, message, hint=f'Add "{column}" = … to ON.')


def no_package(connector: str, package: str, extra: str | None = None) -> ConnectorError:
    """The error for a package that is not installed. ``extra`` brings it, if it is not called like the connector."""
    message = f'connector "{connector}" needs the Python package "{package}", which is not installed'
    return ConnectorError(NO_PACKAGE, message, hint=f"pip install 'sqlstream[{extra or connector}]'")
