"""Lookup sources whose errors tell no secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.lookup.source import Key, LookupClient, LookupSource, Request, Row


def secretive(source: LookupSource, secrets: Secrets) -> LookupSource:
    """The source; where there are secrets, one that hides them in errors."""
    return source if secrets == NO_SECRETS else SecretiveSource(source, secrets)


@dataclass(frozen=True)
class SecretiveSource:
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
            return SecretiveClient(await self.source.open(), self.secrets)


class SecretiveClient:
    def __init__(self, client: LookupClient, secrets: Secrets) -> None:
        self._client = client
        self._secrets = secrets

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        with hiding(self._secrets):
            return await self._client.ask(keys)

    async def close(self) -> None:
        await self._client.close()
