"""Tables of lakes for lookups: a version is loaded as a whole and looked up in memory (Flink's FULL cache)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pyarrow as pa

from sqlstream.connectors.lakes.logs import log_of
from sqlstream.connectors.lakes.rows import reader_of, splits
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Request
from sqlstream.udfs.lookup.sources.files import Index, WholeTable, filtered, require_years


@dataclass(frozen=True)
class LakeSource:
    """A lookup table in a lake. ``settings``: the table, as JSON; ``columns``: those that keys, answers and filters
    need. ``as_of``: the version at the start of the query: sources of other versions are not equal, so each loads its
    own data. With a reload interval newer versions are loaded when they are there.
    """

    name: str
    request: Request
    settings: str = field(repr=False)
    columns: tuple[tuple[str, DataType], ...]
    as_of: int
    reload_ms: int | None = None

    async def open(self) -> LakeClient:
        client = LakeClient(self)
        await client.load()
        return client


class LakeClient(WholeTable):
    """The client of a ``LakeSource``, which holds all rows and an index of them in memory."""

    def __init__(self, source: LakeSource) -> None:
        super().__init__(source)
        self._lake = source
        self._version: int | None = None

    async def reload(self) -> bool:
        """Reads the newest version, or, without a reload interval, that of the start. Returns False if it is the one
        that was read before.
        """
        version, index = await asyncio.to_thread(self._read)
        if index is None:
            return False
        self._version, self._index = version, index
        return True

    def _read(self) -> tuple[int, Index | None]:
        log = log_of(LakeSettings.of_json(self._lake.settings))
        position = log.first_position() if self._lake.reload_ms is not None else log.position_of(self._lake.as_of)
        if position.version == self._version:
            return position.version, None
        types = {name: kind.to_arrow() for name, kind in self._lake.columns}
        schema = pa.schema([*types.items()])
        reader = reader_of(schema, types, LakeSettings.of_json(self._lake.settings))
        rows = pa.Table.from_batches(reader.rows([splits(log.files(position))]), schema)
        rows = filtered(rows, self._lake.request.filters, dict(self._lake.columns))
        require_years(self._lake.name, rows, dict(self._lake.columns))
        return position.version, Index(rows, self._lake.request)
