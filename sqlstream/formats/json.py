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

from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field
from sqlstream.formats.json_columns import SCALARS, Rows, Rules, rows_of_nothing
from sqlstream.formats.json_records import NoRecord, parse, regular
from sqlstream.formats.json_structure import Structure, Text, structure
from sqlstream.formats.json_template import split
from sqlstream.types import DataType

_PIECE = 1 << 20
"""Bytes."""
_FEW = 16
"""Records that are read one by one at less cost than together."""
_MESSAGE_END = 0xFF
"""What stands between messages, which may have line breaks: no UTF-8 has it."""


@dataclass(frozen=True)
class JsonDecoder(Decoder):
    """Decodes one JSON object per line or message.

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
        mark = 3 if bytes(given[:3]) == b"\xef\xbb\xbf" else 0  # the byte order mark of a file
        edges = _edges(np.frombuffer(given, np.uint8), mark)
        decoded = [self._decoded(Text(given[s:e], ord("\n")), s, lines=True) for s, e in pairwise(edges)]
        if len(decoded) == 1:
            return decoded[0]
        before = np.cumsum([0, *(d.records for d in decoded)]).tolist()
        faults = [replace(f, record=f.record + n) for d, n in zip(decoded, before, strict=False) for f in d.faults]
        rows = self._in_order([(d.rows, np.arange(d.rows.num_rows)) for d in decoded], ordered=True)
        return Decoded(rows, before[-1], faults)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        values = values.cast(pa.binary())
        joined = pa.concat_arrays([values.fill_null(b"")])
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1] if len(joined) else np.zeros(1, int)
        data = np.frombuffer(joined.buffers()[2] or b"", np.uint8)[: offsets[-1]]
        lost = np.flatnonzero(data == _MESSAGE_END)
        if len(lost):  # other bytes that no UTF-8 has, so that the ends of messages can be told from them
            data = data.copy()
            data[lost] = 0xFE
        spread = np.insert(data, offsets[1:], _MESSAGE_END)
        decoded = self._decoded(Text(spread.tobytes(), _MESSAGE_END), 0, lines=False)
        faults = [Fault(f.record, 0, joined[f.record].as_py(), f.reason) for f in decoded.faults]
        return Decoded(decoded.rows, decoded.records, faults)

    def _decoded(self, text: Text, shift: int, *, lines: bool) -> Decoded:
        """The records of a text, in which ``shift`` bytes before them are not."""
        alike, rest, starts, ends = split(text)
        if self.exactly:
            alike, rest = [], np.arange(len(starts))
        parts: list[tuple[pa.RecordBatch, np.ndarray]] = []
        faults: dict[int, str] = {}
        parts += [self._part(same, same.roots, faults) for same in alike]
        blank = np.zeros(len(starts), bool)
        if alike and len(rest) <= _FEW:
            odd = rest
        else:
            others = text if not alike else _some_of(text, starts, ends, rest)
            found = structure(others)
            found.odd |= found.blank | self.exactly
            parts.append(self._part(found, rest, faults))
            odd = rest[found.odd]
        records = [text.data[starts[at] : ends[at]].tobytes() for at in odd.tolist()]
        if lines:
            blank[odd] = [not record.strip(b" \t\r\n") for record in records]
        given = [(record, at) for record, at in zip(records, odd.tolist(), strict=True) if not blank[at]]
        parts.append(self._odd(given, faults))
        numbers = np.cumsum(~blank) - 1
        listed = []
        for at in sorted(faults):
            record = text.data[starts[at] : ends[at]].tobytes().removesuffix(b"\r")
            listed.append(Fault(int(numbers[at]), text.position(int(starts[at])) + shift, record, faults[at]))
        return Decoded(self._in_order(parts), int((~blank).sum()), listed)

    def _part(self, found: Structure, numbers: np.ndarray, faults: dict[int, str]) -> tuple[pa.RecordBatch, np.ndarray]:
        """The good rows of a structure and the numbers of their records; adds the faults.

        ``numbers``: those of the records of the structure, or of its roots if all are alike.
        """
        places = numbers if numbers is found.roots else numbers[found.roots]
        rows = Rows(self._rules, found)
        good = ~found.odd[found.roots]
        for root, reason in rows.reasons():
            faults[int(places[root])] = reason
            good[root] = False
        if good.all():
            return rows.batch, places
        return rows.batch.filter(pa.array(good)), places[good]

    def _odd(self, records: list[tuple[bytes, int]], faults: dict[int, str]) -> tuple[pa.RecordBatch, np.ndarray]:
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
        return self._part(ordinary, np.array(origins, np.intp), faults)

    def _in_order(self, parts: list[tuple[pa.RecordBatch, np.ndarray]], *, ordered: bool = False) -> pa.RecordBatch:
        """The rows of all parts, in the order of their records; ``ordered``: the parts follow each other."""
        parts = [(batch, numbers) for batch, numbers in parts if len(numbers)]
        if not self.schema.names:
            return rows_of_nothing(sum(len(numbers) for _, numbers in parts))
        if len(parts) < 2:
            return parts[0][0] if parts else pa.RecordBatch.from_pylist([], self.schema)
        (whole,) = pa.Table.from_batches([batch for batch, _ in parts]).combine_chunks().to_batches()
        if ordered:
            return whole
        order = np.argsort(np.concatenate([numbers for _, numbers in parts]), kind="stable")
        return whole.take(pa.array(order))


def _edges(data: np.ndarray, start: int) -> list[int]:
    """Where pieces of a block begin and end that are best read at once: what is found in them stays in the cache."""
    edges = [start]
    while edges[-1] + 2 * _PIECE < len(data):
        ends = data[edges[-1] + _PIECE : edges[-1] + 2 * _PIECE] == ord("\n")
        found = int(ends.argmax())
        if not ends[found]:
            break
        edges.append(edges[-1] + _PIECE + found + 1)
    return [*edges, len(data)]


def _some_of(text: Text, starts: np.ndarray, ends: np.ndarray, which: np.ndarray) -> Text:
    """Some records of a text."""
    data = text.data.data
    records = [data[s:e] for s, e in zip(starts[which].tolist(), ends[which].tolist(), strict=True)]
    end = bytes([text.end])
    return Text(end.join(records) + end, text.end)
