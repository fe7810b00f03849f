"""Receivers: what a connector does to get messages, and the thread in which it does.

A receiver is a coroutine that gives messages to its inbox. Whatever it must tell a sender, such as the answer to a
request or an acknowledgement, it says after ``Inbox.store`` has returned: the messages are on disk then.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, NamedTuple

from sqlstream.connectors.receiving.spool import Message, Spool
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.udfs.hiding import without_secrets
from sqlstream.udfs.texts import reason_of

UNREACHABLE = "SS660"

_AT_ONCE, _BYTES_AT_ONCE = 10_000, 16 << 20
"""Messages that are written to disk together."""
_STOP_SECONDS = 10.0


class Receiver(ABC):
    """Gets messages from a server, or listens for them. It is pickled before it runs.

    ``name``: the table's, for messages. ``secrets``: what messages must not show.
    """

    name: str
    secrets: Secrets = NO_SECRETS

    @abstractmethod
    async def run(self, inbox: Inbox) -> None:
        """Gives messages to the inbox until it is cancelled. A SqlStreamError ends the job, and so does returning."""


class _Waiting(NamedTuple):
    messages: Sequence[Message]
    cursor: str | None
    stored: asyncio.Future[None] | None
    size: int


class Inbox:
    """Where a receiver puts its messages. All of its methods are for the receiver's event loop.

    ``lasting``: False where a query is only looked at, so that messages are gone when it ends: a receiver then takes
    none away from the job that needs them. ``most_bytes``: while so many wait to be read, nothing is stored.
    """

    def __init__(self, spool: Spool, most_bytes: int, *, lasting: bool = True) -> None:
        self._spool, self._most_bytes = spool, most_bytes
        self.lasting = lasting
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._new = asyncio.Event()
        self._of_ids: dict[str, asyncio.Future[None]] = {}

    @property
    def cursor(self) -> str | None:
        """What ``store`` was given last, also before a restart; None in the beginning."""
        return self._spool.cursor

    @property
    def is_full(self) -> bool:
        """True where so much waits to be read that ``store`` would wait, too."""
        return self._spool.waiting_bytes >= self._most_bytes

    def knows(self, id: str) -> bool:  # noqa: A002 - the field of a message
        """True where a message of this ``id`` is among the newest that were stored (``MessageSource.remembered``)."""
        return self._spool.knows(id)

    async def store(self, messages: Sequence[Message], cursor: str | None = None) -> None:
        """Returns when the messages are on disk, and ``cursor`` with them, if it is given: where to go on after them.
        Messages of several calls are stored in the order of the calls.
        """
        while self.is_full:
            await asyncio.sleep(0.05)
        await self._stored(messages, cursor)

    async def store_once(self, id: str, messages: Sequence[Message]) -> None:  # noqa: A002 - the field of a message
        """Stores the messages of an ``id``, unless those of the same are among the newest that were stored."""
        if self._spool.knows(id):
            return
        if (other := self._of_ids.get(id)) is not None:
            await asyncio.shield(other)
            return
        while self.is_full:
            await asyncio.sleep(0.05)
        self._of_ids[id] = asyncio.ensure_future(self._stored(messages, None))
        try:
            await asyncio.shield(self._of_ids[id])
        finally:
            self._of_ids.pop(id, None)

    async def put(self, messages: Sequence[Message], cursor: str | None = None) -> None:
        """Does what ``store`` does, and returns before the messages are on disk: for senders that are told nothing."""
        while self.is_full or self._waiting_bytes >= _BYTES_AT_ONCE or len(self._waiting) >= _AT_ONCE:
            await asyncio.sleep(0.01)
        self._wait(messages, cursor, None)

    async def _stored(self, messages: Sequence[Message], cursor: str | None) -> None:
        stored = asyncio.get_running_loop().create_future()
        self._wait(messages, cursor, stored)
        await stored

    def _wait(self, messages: Sequence[Message], cursor: str | None, stored: asyncio.Future[None] | None) -> None:
        size = sum(len(message.value) for message in messages)
        self._waiting.append(_Waiting(messages, cursor, stored, size))
        self._waiting_bytes += size
        self._new.set()

    async def write(self) -> None:
        """Writes what is given to ``store``, all that has come meanwhile at once, until it is cancelled."""
        while True:
            await self._new.wait()
            self._new.clear()
            while taken := self._taken():
                messages = [message for waiting in taken for message in waiting.messages]
                cursor = next((w.cursor for w in reversed(taken) if w.cursor is not None), None)
                try:
                    await asyncio.shield(asyncio.to_thread(self._spool.append, messages, cursor))
                except OSError as error:
                    for waiting in taken:
                        _end(waiting.stored, error)
                    raise
                for waiting in taken:
                    _end(waiting.stored)

    def _taken(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        count = size = 0
        while self._waiting and count < _AT_ONCE and size < _BYTES_AT_ONCE:
            waiting = self._waiting.popleft()
            taken.append(waiting)
            count, size = count + len(waiting.messages), size + waiting.size
        self._waiting_bytes -= size
        return taken


def _end(future: asyncio.Future[None] | None, error: Exception | None = None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


# --- the thread -------------------------------------------------------------------------------------------------


class Receiving:
    """Runs a receiver in a thread of its own until it is stopped. ``error``: what has ended it."""

    def __init__(self, receiver: Receiver, spool: Spool, most_bytes: int, *, lasting: bool = True) -> None:
        self._receiver, self._spool = receiver, spool
        self._most_bytes, self._lasting = most_bytes, lasting
        self.error: SqlStreamError | None = None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._thread = Thread(target=self._run, name=f"messages of {receiver.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the receiver. Messages that it has given are stored, unless that takes too long."""
        self._stopped = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_STOP_SECONDS + 1)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._received())
        except Exception as error:
            self.error = self._failure(error)
        finally:
            with suppress(Exception):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _received(self) -> None:
        inbox = Inbox(self._spool, self._most_bytes, lasting=self._lasting)
        writing = asyncio.ensure_future(inbox.write())
        self._task = asyncio.ensure_future(self._receiver.run(inbox))
        if self._stopped:
            self._task.cancel()
        try:
            await asyncio.wait({writing, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_STOP_SECONDS)  # what it has begun, it may end
            writing.cancel()
            await asyncio.wait({writing}, timeout=_STOP_SECONDS)
        for task in (writing, self._task):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if not self._stopped:
            raise ConnectorError(UNREACHABLE, f'nothing more is received for table "{self._receiver.name}"')

    def _failure(self, error: Exception) -> SqlStreamError:
        if isinstance(error, SqlStreamError):
            return without_secrets(error, self._receiver.secrets)
        reason = self._receiver.secrets.hidden(reason_of(error))
        message = f'messages of table "{self._receiver.name}" cannot be received: {reason}'
        return ConnectorError(UNREACHABLE, message)


# --- connections that are made again ----------------------------------------------------------------------------


class Lost(Exception):
    """The connection to a server ended, or could not be made: it is worth while to try again."""


@dataclass
class Patience:
    """How long a receiver waits before it connects again: ``delay_ms``, and twice as long with each attempt that fails,
    up to ``most_ms``. After ``limit_ms`` without a connection it gives up.

    ``name``: the table's; ``address``: what the server is called in messages.
    """

    name: str
    address: str
    delay_ms: int
    most_ms: int
    limit_ms: int
    _attempts: int = 0
    _since: float | None = None

    @classmethod
    def of(cls, table: Table, values: Mapping[str, Any], address: str) -> Patience:
        """Returns what the options RECONNECT_OPTIONS of a table say. ``values``: its parsed options."""
        delays = (values["reconnect.delay"], values["reconnect.max-delay"], values["reconnect.timeout"])
        return cls(table.name, address, *delays)

    def connected(self) -> None:
        """Says that there is a connection."""
        self._attempts, self._since = 0, None

    @asynccontextmanager
    async def trying(self) -> AsyncIterator[None]:
        """One attempt. Where it ends with ``Lost`` or OSError, waits before the next one. ConnectorError SS660 where
        there was no connection for too long.
        """
        try:
            yield
        except (Lost, OSError) as error:
            now = time.monotonic()
            self._since = now if self._since is None else self._since
            if (now - self._since) * 1000 >= self.limit_ms:
                raise self._given_up(error) from None
        delay = min(self.delay_ms << min(self._attempts, 30), max(self.most_ms, self.delay_ms))
        self._attempts += 1
        await asyncio.sleep(delay / 1000 * random.uniform(0.75, 1))

    def _given_up(self, error: Exception) -> ConnectorError:
        message = f'{self.address} of table "{self.name}" cannot be reached: {reason_of(error)}'
        seconds = self.limit_ms / 1000
        hint = f"It was tried for {seconds:g} seconds, as 'reconnect.timeout' says; the job goes on where it was."
        return ConnectorError(UNREACHABLE, message, hint=hint)
