"""What a table format such as Delta says of a data file besides its name: values that all rows share, names of columns
in the file, and rows that are deleted. A file split carries it as text in the column DETAILS.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from sqlstream.errors import ConnectorError, repeating

DETAILS = "__details"
"""STRING column of file splits: ``FileDetails`` as text; NULL or missing for files that only have a name."""

_FIELD_ID = b"PARQUET:field_id"

NO_FIELD_IDS = repeating("SS547")


@dataclass(frozen=True)
class FileDetails:
    """How rows of a file become rows of a table.

    * ``location``: the file as its table format names it, for readers of files that are not on this machine.
    * ``constants``: by column, the value that all rows have, as ``constant_text`` spells it.
    * ``names``: by column, its name in the file, or several of which the file has one; ``ids``: by column, its field id
      in the file. In a file without ids a column has one of its ``names``, and without any it may be any column: SS547.
      A column in neither has its own name in the file, in any case of letters. Columns that the file lacks are NULL, or
      have their value in ``defaults``, which is spelled as in ``constants``.
    * ``deleted``: the positions of deleted rows, packed by ``packed_positions``.
    """

    location: str = ""
    constants: Mapping[str, str | None] = field(default_factory=dict)
    names: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    deleted: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """The details as JSON."""
        return json.dumps({f.name: value for f in fields(self) if (value := getattr(self, f.name))})

    @staticmethod
    def of_split(split: Mapping[str, Any]) -> FileDetails | None:
        """Returns the details in a row of file splits; None where it has none."""
        text = split.get(DETAILS)
        return None if text is None else FileDetails(**json.loads(text))

    def own_names(self, there: pa.Schema, wanted: Sequence[str]) -> dict[str, str]:
        """Returns the table's columns by their names in a file with the schema ``there``, without those it lacks."""
        by_name = {name.lower(): name for name in reversed(there.names)}
        by_id = {int(f.metadata[_FIELD_ID]): f.name for f in there if f.metadata and _FIELD_ID in f.metadata}
        own: dict[str, str] = {}
        for name in wanted:
            if name in self.constants:
                continue
            if name in self.ids and by_id:
                stored = by_id.get(self.ids[name])
            elif name in self.ids and name not in self.names:
                raise _without_ids(self.location, name)
            else:
                named = self.names.get(name, name)
                there_as = (by_name.get(n.lower()) for n in ([named] if isinstance(named, str) else named))
                stored = next((own_name for own_name in there_as if own_name is not None), None)
            if stored is not None:
                own[stored] = name
        return own

    def remaining(self, first: int, count: int) -> np.ndarray | None:
        """Returns the indexes of the rows that are not deleted, of ``count`` rows of which the first has the position
        ``first`` in the file; None where no row of the file is deleted.
        """
        gone = self._gone
        if gone is None:
            return None
        low, high = np.searchsorted(gone, [first, first + count])
        keep = np.ones(count, bool)
        keep[gone[low:high] - first] = False
        return np.flatnonzero(keep)

    @cached_property
    def _gone(self) -> np.ndarray | None:
        """The positions of deleted rows, which are unpacked once for all batches of a file."""
        return None if self.deleted is None else positions(self.deleted)

    def with_constants(self, rows: pa.RecordBatch, wanted: Mapping[str, pa.DataType]) -> pa.RecordBatch:
        """Adds the columns among ``wanted`` whose value is the same in all rows, as their declared types."""
        same = {**{n: text for n, text in self.defaults.items() if n not in rows.schema.names}, **self.constants}
        for name, kind in wanted.items():
            if name in same:
                values = pa.repeat(constant(same[name], kind), rows.num_rows)
                names = [*rows.schema.names, name]
                rows = pa.RecordBatch.from_arrays([*rows.columns, values], names=names)
        return rows


def _without_ids(location: str, column: str) -> ConnectorError:
    message = f'file "{location}" has no field ids, and nothing says which of its columns is "{column}"'
    hint = "Give the table a mapping of names (schema.name-mapping.default of Iceberg), or write the file again."
    return ConnectorError(NO_FIELD_IDS, message, hint=hint)


def constant_text(value: Any) -> str | None:
    """Spells a value that all rows of a file share."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return base64.b64encode(value).decode()
        case date():  # a datetime, too
            return value.isoformat()
        case Decimal():
            return format(value, "f")
    return str(value)


def constant(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Reads what ``constant_text`` has spelled, as a value of the type."""
    if text is None:
        return pa.scalar(None, kind)
    if kinds.is_timestamp(kind):
        time = datetime.fromisoformat(text)
        return pa.scalar(time, pa.timestamp("us", None if time.tzinfo is None else "UTC")).cast(kind)
    if kinds.is_binary(kind):
        return pa.scalar(base64.b64decode(text), kind)
    if kinds.is_string(kind):
        return pa.scalar(text, kind)
    if kinds.is_boolean(kind):
        return pa.scalar(text.lower() == "true", kind)
    if kinds.is_decimal(kind):
        return pa.scalar(Decimal(text)).cast(kind)
    return pa.scalar(text).cast(kind)


def packed_positions(rows: np.ndarray) -> str | None:
    """Packs positions of rows, which need no order, into a text; None for none."""
    if not len(rows):
        return None
    steps = np.diff(np.unique(rows.astype(np.int64)), prepend=np.int64(0))
    return base64.b64encode(zlib.compress(steps.tobytes())).decode()


def positions(packed: str) -> np.ndarray:
    """The positions of rows, in order, that ``packed_positions`` has packed."""
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.int64))
