"""The contract between the lookup operator and outside systems.

A ``LookupSource`` is frozen data that travels to the workers; there it opens one ``LookupClient`` per process, which
answers many requests at the same time on one event loop.
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
    """``column operator value``, all of which a source must check where they are part of its request.

    ``operator`` is one of = <> < <= > >=, "IN" (``value`` is a tuple), "IS NULL" and "IS NOT NULL" (``value`` is None).
    Values are int, float, str, bool, Decimal, date or datetime.
    """

    column: str
    operator: str
    value: object = None


@dataclass(frozen=True)
class Request:
    """What a source knows before the first row: the key columns, the wanted columns, and filters."""

    keys: tuple[tuple[str, DataType], ...]
    columns: tuple[tuple[str, DataType], ...]
    filters: tuple[Comparison, ...] = ()


class LookupClient(Protocol):
    """An open connection, or a pool of them. All calls come from one event loop, many at the same time."""

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        """The rows of each key, in the order of the keys; an empty sequence for a key without rows.

        Any exception is an error of all these keys; its text is shown to users, so it names no secret.
        """
        ...

    async def close(self) -> None: ...


class LookupSource(Protocol):
    """Frozen, picklable, hashable and equal where it answers alike: clients and caches are shared by equal sources.

    ``repr`` shows no secret. ``request`` is part of it.
    """

    @property
    def request(self) -> Request: ...

    @property
    def name(self) -> str:
        """The name of the table or function, for messages."""
        ...

    async def open(self) -> LookupClient: ...


# --- sources whose errors must not reveal secrets -------------------------------------------------------------


def redacting(source: LookupSource, secrets: Secrets) -> LookupSource:
    """The source; where there are secrets, one that hides them in errors."""
    return source if secrets == NO_SECRETS else RedactingSource(source, secrets)


@dataclass(frozen=True)
class RedactingSource:
    source: LookupSource
    secrets: Secrets = field(repr=False)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def request(self) -> Request:
        return self.source.request

    async def open(self) -> LookupClient:
        with hiding(self.secrets):
            return RedactingClient(await self.source.open(), self.secrets)


class RedactingClient:
    def __init__(self, client: LookupClient, secrets: Secrets) -> None:
        self._client = client
        self._secrets = secrets

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        with hiding(self._secrets):
            return await self._client.ask(keys)

    async def close(self) -> None:
        await self._client.close()
