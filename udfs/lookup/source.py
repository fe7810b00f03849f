"""The contract between the lookup operator and external systems.

A ``LookupSource`` is frozen data that is sent to the workers. There it opens one ``LookupClient`` per process, which
answers many requests concurrently on one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding

Key = tuple[object, ...]
"""Python values of the key columns, in the order of ``Request.keys``, none of them None: NULL equals nothing."""

Row = tuple[object, ...]
"""Python values of ``Request.columns``, in that order, as ``pyarrow.array`` takes them for the columns' types."""


@dataclass(frozen=True)
class Comparison:
    """A condition ``column operator value``. A source must apply all comparisons of its request.

    ``operator`` is one of = <> < <= > >=, "IN" (``value`` is a tuple), "IS NULL" and "IS NOT NULL" (``value`` is None).
    Values are int, float, str, bool, Decimal, date or datetime.
    """

    column: str
    operator: str
    value: object = None


@dataclass(frozen=True)
class Request:
    """What a lookup asks of a source, fixed before the first row: the key columns, the result columns, and filters that
    all result rows must pass.
    """

    keys: tuple[tuple[str, DataType], ...]
    columns: tuple[tuple[str, DataType], ...]
    filters: tuple[Comparison, ...] = ()


class LookupClient(Protocol):
    """An open connection to a source, or a pool of connections. All calls come from one event loop, many at the same
    time.
    """

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        """The rows of each key, in the order of the keys; an empty sequence for a key without rows.

        Any exception is an error of all these keys; its text is shown to users, so it names no secret.
        """
        ...

    async def close(self) -> None:
        """Releases the connections."""
        ...


class LookupSource(Protocol):
    """A system in which rows are looked up by key. Implementations are frozen, picklable and hashable. Equal sources
    give equal answers, and share clients and caches.

    ``repr`` shows no secret. ``request`` is part of the source's identity.
    """

    @property
    def request(self) -> Request:
        """The columns and filters that the source answers for."""
        ...

    @property
    def name(self) -> str:
        """The name of the table or function, for error messages."""
        ...

    async def open(self) -> LookupClient:
        """Opens a client in the current process."""
        ...


# --- sources whose errors must not reveal secrets -------------------------------------------------------------


def redacting(source: LookupSource, secrets: Secrets) -> LookupSource:
    """Wraps a source so that its errors do not show the secrets. Without secrets, returns the source itself."""
    return source if secrets == NO_SECRETS else RedactingSource(source, secrets)


@dataclass(frozen=True)
class RedactingSource:
    """A source whose errors do not show the secrets."""

    source: LookupSource
    secrets: Secrets = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the wrapped source."""
        return self.source.name

    @property
    def request(self) -> Request:
        """The request of the wrapped source."""
        return self.source.request

    async def open(self) -> LookupClient:
        """A ``RedactingClient`` of the wrapped source."""
        with hiding(self.secrets):
            return RedactingClient(await self.source.open(), self.secrets)


class RedactingClient:
    """A client whose errors do not show the secrets."""

    def __init__(self, client: LookupClient, secrets: Secrets) -> None:
        self._client = client
        self._secrets = secrets

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        with hiding(self._secrets):
            return await self._client.ask(keys)

    async def close(self) -> None:
        await self._client.close()
