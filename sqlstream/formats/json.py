"""Records of JSON, read as Flink's format ``json`` reads them.

A whole block is taken at once: ``json_structure`` finds where all values are, and each column is made from the places
of its values. Records in which something is odd are read one by one (``json_records``), spelled in an ordinary way, and
then read like the others, so that there is one rule for each type. Why it is done so and not with a parser that Arrow,
Polars or DuckDB have: docs/internals/formats.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, rows_of_nothing, without
from sqlstream.formats.json_alike import split
from sqlstream.formats.json_arrays import elements_of
from sqlstream.formats.json_columns import SCALARS, Rows, Rules
from sqlstream.formats.json_records import NO_OBJECT, NoRecord, parse, regular
from sqlstream.formats.json_structure import Structure, structure
from sqlstream.formats.json_text import Text
from sqlstream.formats.text_rule import bytes_of, offsets_of
from sqlstream.types import DataType

_PIECE = 1 << 20
"""Bytes."""
_FEW = 64
"""Records of a piece that are read at less cost with those of other pieces."""
_FEWEST = 4
"""Records that are read one by one at less cost than together."""
_RUN = 64
"""Rows that are copied together at less cost than one by one."""
_MESSAGE_END = 0xFF
"""What stands between messages, which may have line breaks: no UTF-8 has it."""

_Part = tuple[pa.RecordBatch, np.ndarray]
"""Rows and the numbers of their records."""
_Record = tuple[bytes, int]
"""A record and its number."""


@dataclass(frozen=True)
class JsonDecoder(Decoder):
    """Decodes one JSON object per line or message. ``arrays``: or an array of objects, each of which is a row; where
    one of them is invalid, the whole array is.

    ``fails_on_missing``: json.fail-on-missing-field. ``ignores_errors``: json.ignore-parse-errors; a value that does
    not fit its column is NULL, but a record that is not a JSON object is still a fault. ``standard``:
    json.timestamp-format.standard. ``zone``: the session's time zone. ``unit``: what numbers for TIMESTAMP and
    TIMESTAMP_NTZ count since 1970, "ms", "us" or "ns"; None: they are faults.
    """

    fields: tuple[Field, ...]
    fails_on_missing: bool = False
    ignores_errors: bool = False
    standard: str | None = None
    zone: str = "UTC"
    unit: str | None = None
    arrays: bool = False
    exactly: bool = field(default=False, repr=False)
    """Every record is read by itself; for tests."""

    @staticmethod
    def holds(kind: DataType) -> bool:
        """True where the decoder supports the type: all types but VARIANT, MAP with keys other than STRING, and types
        that contain one of these. Of a VARIANT it gives the JSON (``json_records.with_raw_json``).
        """
        if kind.name == "MAP" and kind.args[0] != DataType("STRING"):
            return False
        nested = frozenset({"ARRAY", "MAP", "STRUCT"})
        return all(part.name in SCALARS | nested for part in kind.parts())

    @property
    def schema(self) -> pa.Schema:
        return self._rules.schema

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.fields, self.fails_on_missing, self.ignores_errors, self.standard, self.zone, self.unit)

    def block(self, data: pa.Buffer) -> Decoded:
        given = memoryview(data)
        return self._decoded(given, _edges(np.frombuffer(given, np.uint8), ord("\n")), ord("\n"))

    def messages(self, values: pa.BinaryArray) -> Decoded:
        values = values.cast(pa.binary())
        joined = pc.binary_join_element_wise(values.fill_null(b""), bytes([_MESSAGE_END]), b"")
        offsets = offsets_of(joined)
        data = bytes_of(joined)[offsets[0] : offsets[-1]]
        if np.count_nonzero(data == _MESSAGE_END) > len(joined):
            data = data.copy()
            data[data == _MESSAGE_END] = 0xFE  # another byte that no UTF-8 has, so that ends can be told from it
            data[offsets[1:] - offsets[0] - 1] = _MESSAGE_END
        decoded = self._decoded(data.data, _edges(data, _MESSAGE_END), _MESSAGE_END)
        faults = [Fault(f.record, 0, values[f.record].as_py() or b"", f.reason) for f in decoded.faults]
        return replace(decoded, faults=faults)

    def _decoded(self, data: memoryview, edges: list[int], end: int) -> Decoded:
        """The records of a text, each of which ends with the byte ``end``, in pieces between the ``edges``."""
        parts: list[_Part] = []
        faults: dict[int, str] = {}
        edges_of_records, few, odd, count = [], [], [], 0
        for first, last in pairwise(edges):
            text = Text(data[first:last], end)
            alike, rest, starts, ends = split(text)
            if self.exactly:
                alike, rest = [], np.arange(len(starts))
            parts += [self._part(same, count + same.roots, faults) for same in alike]
            if alike and len(rest) <= _FEW:
                few.append(count + rest)
            else:
                others = text if not alike else _some_of(text.data.data, starts[rest], ends[rest], end)
                odd.append(self._by_structure(others, count + rest, parts, faults))
            edges_of_records.append((text.positions(starts) + first, text.positions(ends) + first))
            count += len(starts)
        starts, ends = (np.concatenate(edge) for edge in zip(*edges_of_records, strict=True))
        # Those that are unlike the others of their pieces, together.
        rest = np.concatenate([*few, np.empty(0, np.intp)])
        if len(rest) > _FEWEST:
            rest = self._by_structure(_some_of(data, starts[rest], ends[rest], end), rest, parts, faults)
        blank, given, arrays = np.zeros(count, bool), list[_Record](), list[_Record]()
        for at in np.concatenate([*odd, rest]).tolist():
            record = bytes(data[starts[at] : ends[at]])
            blank[at] = end == ord("\n") and not record.strip(b" \t\r\n")
            if not blank[at]:
                is_array = self.arrays and record.lstrip(b" \t\r\n").startswith(b"[")
                (arrays if is_array else given).append((record, at))
        parts.append(self._odd(given, faults))
        if arrays:
            parts.append(self._of_arrays(arrays, faults))
        numbers = np.cumsum(~blank) - 1
        listed = []
        for at in sorted(faults):
            record = bytes(data[starts[at] : ends[at]]).removesuffix(b"\r")
            listed.append(Fault(int(numbers[at]), int(starts[at]), record, faults[at]))
        of_rows = numbers[np.sort(np.concatenate([of_part for _, of_part in parts]))] if arrays else None
        return Decoded(self._in_order(parts), int((~blank).sum()), listed, of_rows)

    def _by_structure(self, text: Text, numbers: np.ndarray, parts: list[_Part], faults: dict[int, str]) -> np.ndarray:
        """Adds the rows and faults of the records of a text, which have these numbers, and returns the numbers of those
        in which something is odd.
        """
        found = structure(text)
        found.odd |= found.blank | self.exactly
        parts.append(self._part(found, numbers[found.roots], faults))
        return np.asarray(numbers[found.odd])

    def _part(self, found: Structure, numbers: np.ndarray, faults: dict[int, str]) -> _Part:
        """The good rows of a structure and the numbers of their records; adds the faults. ``numbers``: those of the
        records of its roots.
        """
        rows = Rows(self._rules, found)
        good = ~found.odd[found.roots]
        for root, reason in rows.reasons():
            faults[int(numbers[root])] = reason
            good[root] = False
        if good.all():
            return rows.batch, numbers
        if not self.schema.names:
            return rows.batch.filter(pa.array(good)), numbers[good]
        columns = without(rows.batch.columns, ~good)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), numbers[good]

    def _odd(self, records: list[_Record], faults: dict[int, str]) -> _Part:
        """The good rows of records that are read one by one, and their numbers; adds the faults."""
        names = [(f.name, f.type) for f in self.fields]
        spelled, origins = [], []
        for record, number in records:
            try:
                spelled.append(regular(parse(record), names))
                origins.append(number)
            except NoRecord as wrong:
                faults[number] = str(wrong)
        if not spelled:
            return pa.RecordBatch.from_pylist([], self.schema), np.empty(0, np.intp)
        ordinary = structure(Text("\n".join(spelled).encode(), ord("\n")), ordinary=True)
        assert not ordinary.odd.any(), "an ordinary spelling is odd"
        return self._part(ordinary, np.array(origins, np.intp)[ordinary.roots], faults)

    def _of_arrays(self, records: list[_Record], faults: dict[int, str]) -> _Part:
        """The rows of records that are arrays, and the numbers of their records; adds the faults."""
        found = elements_of([record for record, _ in records])
        numbers = np.array([number for _, number in records], np.intp)
        for number in numbers[found.broken].tolist():
            faults[number] = NO_OBJECT
        decoded = replace(self, arrays=False).messages(found.texts)
        firsts = np.searchsorted(found.owners, np.arange(len(records)))
        for fault in reversed(decoded.faults):  # the first one of an array counts
            owner = found.owners[fault.record]
            faults[int(numbers[owner])] = f"element {fault.record - firsts[owner] + 1}: {fault.reason}"
        of_rows = numbers[found.owners[decoded.numbers]]
        good = ~np.isin(of_rows, [*faults])
        return decoded.rows.filter(pa.array(good)), of_rows[good]

    def _in_order(self, parts: list[_Part]) -> pa.RecordBatch:
        """The rows of all parts, in the order of their records."""
        parts = [(batch, numbers) for batch, numbers in parts if len(numbers)]
        if not self.schema.names:
            return rows_of_nothing(sum(len(numbers) for _, numbers in parts))
        if len(parts) < 2:
            return parts[0][0] if parts else pa.RecordBatch.from_pylist([], self.schema)
        whole = pa.Table.from_batches([batch for batch, _ in parts])
        order = np.argsort(np.concatenate([numbers for _, numbers in parts]), kind="stable")
        runs = [0, *(np.flatnonzero(np.diff(order) != 1) + 1).tolist(), len(order)]
        if len(runs) * _RUN > len(order):
            whole = whole.take(pa.array(order))
        elif len(runs) > 2:  # a few rows between many
            whole = pa.concat_tables([whole.slice(int(order[start]), end - start) for start, end in pairwise(runs)])
        (batch,) = whole.combine_chunks().to_batches()
        return batch


def _edges(data: np.ndarray, end: int) -> list[int]:
    """Where pieces of records begin and end that are best read at once: what is found in them stays in the cache."""
    edges = [0]
    while edges[-1] + 2 * _PIECE < len(data):
        ends = data[edges[-1] + _PIECE : edges[-1] + 2 * _PIECE] == end
        found = int(ends.argmax())
        if not ends[found]:
            break
        edges.append(edges[-1] + _PIECE + found + 1)
    return [*edges, len(data)]


def _some_of(data: memoryview, starts: np.ndarray, ends: np.ndarray, end: int) -> Text:
    """The records between these positions."""
    records = [data[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
    mark = bytes([end])
    return Text(mark.join(records) + mark, end)
