"""Records of JSON, read as Flink's format ``json`` reads them.

A whole block is taken at once: ``json_structure`` finds where all values are, and each column is made from the places
of its values. Records in which something is odd are read one by one (``json_records``), spelled in an ordinary way, and
then read like the others, so that there is one rule for each type. Why it is done so and not with a parser that Arrow,
Polars or DuckDB have: docs/internals/formats.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field
from sqlstream.formats.json_keys import keys
from sqlstream.formats.json_records import NoRecord, parse, regular
from sqlstream.formats.json_structure import (
    ARRAY,
    IS_NUMBER,
    MISSING,
    NULL,
    OBJECT,
    QUOTE,
    TRUE,
    Level,
    Structure,
    Text,
    structure,
)
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_CUT = frozenset({"INT", "BIGINT"})
_NO_NUMBERS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ"})
_SCALARS = _WHOLE | _NO_NUMBERS | {"BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "INTERVAL", "VOID"}
_SHOWN = 100
"""Characters of a value in a reason."""
_MESSAGE_END = 0xFF
"""What stands between messages, which may have line breaks: no UTF-8 has it."""


@dataclass(frozen=True)
class JsonDecoder(Decoder):
    """Reads one object in each line or message.

    ``fails_on_missing``, ``ignores_errors`` and ``standard`` are the options json.fail-on-missing-field,
    json.ignore-parse-errors (a value that does not fit is NULL; what is no object is still a fault) and
    json.timestamp-format.standard. ``zone``: the session's time zone.
    """

    fields: tuple[Field, ...]
    fails_on_missing: bool = False
    ignores_errors: bool = False
    standard: str | None = None
    zone: str = "UTC"
    exactly: bool = field(default=False, repr=False)
    """Every record is read by itself; for tests."""

    @staticmethod
    def holds(kind: DataType) -> bool:
        """True where values of the type can be read: all but VARIANT, and types that hold one."""
        if kind.name == "MAP" and kind.args[0] != DataType("STRING"):
            return False
        nested = frozenset({"ARRAY", "MAP", "STRUCT"})
        return all(part.name in _SCALARS | nested for part in kind.parts())

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    def block(self, data: pa.Buffer) -> Decoded:
        given = memoryview(data)
        mark = 3 if bytes(given[:3]) == b"\xef\xbb\xbf" else 0  # the byte order mark of a file
        return self._decoded(Text(given[mark:], ord("\n")), mark, lines=True)

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
        found = structure(text)
        if self.exactly:
            found.odd[:] = True
        if lines:
            is_record = ~found.blank
            numbers = np.cumsum(is_record) - 1
        else:
            found.odd |= found.blank
            is_record = np.ones(len(found.blank), bool)
            numbers = np.arange(len(found.blank))
        rows = _Rows(self, found)
        reasons = rows.reasons()
        bad_roots = np.zeros(len(found.roots), bool)
        bad_roots[[root for root, _ in reasons]] = True
        faults = {int(found.roots[root]): reason for root, reason in reasons}
        batch, places = rows.batch, found.roots
        good = ~(bad_roots | found.odd[places])
        if not good.all():
            batch, places = batch.filter(pa.array(good)), places[good]
        odd = np.flatnonzero(found.odd & is_record)
        if len(odd):
            batch, places = self._with_odd(found, odd, batch, places, faults)
        return Decoded(
            batch, int(is_record.sum()), [self._fault(found, at, int(numbers[at]), shift, faults[at]) for at in sorted(faults)]
        )

    def _with_odd(
        self, found: Structure, odd: np.ndarray, batch: pa.RecordBatch, places: np.ndarray, faults: dict[int, str]
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows and those of odd records, in order; adds the faults of odd records."""
        names = [(f.name, f.type) for f in self.fields]
        spelled, origins = [], []
        for at in odd.tolist():
            record = found.text.data[found.starts[at] : found.ends[at]].tobytes()
            try:
                spelled.append(regular(parse(record), names))
                origins.append(at)
            except NoRecord as wrong:
                faults[at] = str(wrong)
        if not spelled:
            return batch, places
        ordinary = structure(Text("\n".join(spelled).encode(), ord("\n")), ordinary=True)
        assert not ordinary.odd.any(), "an ordinary spelling is odd"
        rows = _Rows(self, ordinary)
        reasons = rows.reasons()
        faults.update((origins[root], reason) for root, reason in reasons)
        good = np.ones(len(origins), bool)
        good[[root for root, _ in reasons]] = False
        if not good.any():
            return batch, places
        all_places = np.concatenate([places, np.array(origins)[good]])
        if not self.schema.names:
            return _rows_of_nothing(len(all_places)), np.sort(all_places)
        joined = pa.Table.from_batches([batch, rows.batch.filter(pa.array(good))])
        (whole,) = joined.combine_chunks().to_batches()
        order = np.argsort(all_places, kind="stable")
        return whole.take(pa.array(order)), all_places[order]

    @staticmethod
    def _fault(found: Structure, at: int, number: int, shift: int, reason: str) -> Fault:
        start, end = int(found.starts[at]), int(found.ends[at])
        record = found.text.data[start:end].tobytes()
        return Fault(number, found.text.position(start) + shift, record.removesuffix(b"\r"), reason)


def _rows_of_nothing(count: int) -> pa.RecordBatch:
    """Rows without columns, of which only the number is of interest."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


@dataclass
class _Values:
    """Members of a level, one for each row of a column; -1 where the row has none."""

    level: int
    members: np.ndarray
    complete: bool
    """No row is without one."""

    def of(self, level: Level) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The kinds, starts and ends."""
        kinds, starts, ends = level.kinds[self.members], level.starts[self.members], level.ends[self.members]
        return (kinds if self.complete else np.where(self.members < 0, MISSING, kinds)), starts, ends


@dataclass
class _Misfit:
    root: int
    column: int
    member: int
    path: str
    message: str


class _Rows:
    """The columns of the fields, made from the structure of records, and the values that do not fit."""

    def __init__(self, decoder: JsonDecoder, found: Structure) -> None:
        self.decoder, self.found, self.text = decoder, found, found.text
        self.levels = found.levels
        self._misfits: list[_Misfit] = []
        self._missing: dict[int, list[str]] = {}
        self._column = 0
        roots = len(found.roots)
        names = [(f.name, f.type) for f in decoder.fields]
        present = np.arange(roots)
        members = self._members(0, present, [n for n, _ in names], found.odd[found.roots])
        columns = []
        for self._column, (f, values) in enumerate(zip(decoder.fields, members, strict=True)):
            self._note_missing(f.name, f.type, values, ~found.odd[found.roots])
            if f.wanted or f.type.name not in ("STRING", "BOOLEAN", "VOID"):
                columns.append((f, self._array(f.type, values)))
        wanted = [array for f, array in columns if f.wanted]
        self.batch = pa.record_batch(wanted, decoder.schema) if wanted else _rows_of_nothing(roots)

    def reasons(self) -> list[tuple[int, str]]:
        """Why rows are none, by the row."""
        by_root: dict[int, list[_Misfit]] = {}
        for misfit in self._misfits:
            by_root.setdefault(misfit.root, []).append(misfit)
        listed = {
            root: ", ".join(m.message for m in sorted(misfits, key=lambda m: (m.column, m.member)))
            for root, misfits in by_root.items()
        }
        for root, names in self._missing.items():
            listed.setdefault(root, f"it has no field {', '.join(names)}")
        return sorted(listed.items())

    def _members(
        self, level: int, containers: np.ndarray, names: list[str], without: np.ndarray | None = None
    ) -> list[_Values]:
        """The members of some objects that have the names, one for each object."""
        if not len(containers) or level >= len(self.levels):
            return [_Values(level, np.full(len(containers), -1), not len(containers)) for _ in names]
        table = keys(tuple(names)).members(self.text, self.levels[level], containers)
        if without is not None and without.any():
            table[:, without] = -1
        return [_Values(level, row, bool((row >= 0).all())) for row in table]

    def _note_missing(self, path: str, kind: DataType, values: _Values, there: np.ndarray) -> None:
        """Notes the fields that objects lack, if that is a fault; ``there``: which rows have an object around it."""
        if not self.decoder.fails_on_missing:
            return
        for row in np.flatnonzero((values.members < 0) & there).tolist():
            self._missing.setdefault(row, []).append(f'"{path}"')
        if kind.name != "STRUCT":
            return
        kinds = np.where(values.members < 0, MISSING, self._kinds(values))
        objects = np.flatnonzero(kinds == OBJECT)
        inner = self._inner_members(values, objects, kind)
        for (name, of), member in zip(kind.fields(), inner, strict=True):
            spread = np.full(len(there), -1)
            spread[objects] = member.members
            self._note_missing(f"{path}.{name}", of, _Values(member.level, spread, False), kinds == OBJECT)

    def _kinds(self, values: _Values) -> np.ndarray:
        if values.level >= len(self.levels):
            return np.full(len(values.members), MISSING)
        level = self.levels[values.level]
        return level.kinds[values.members] if len(level.kinds) else np.full(len(values.members), MISSING)

    def _inner_members(self, values: _Values, objects: np.ndarray, kind: DataType) -> list[_Values]:
        names = [n for n, _ in kind.fields()]
        if not len(objects):
            return [_Values(values.level + 1, np.empty(0, np.intp), True) for _ in names]
        children = self.levels[values.level].children[values.members[objects]]
        return self._members(values.level + 1, children, names)

    # --- columns ----------------------------------------------------------------------------------------------

    def _array(self, kind: DataType, values: _Values) -> pa.Array:
        """The values as an array of the type."""
        if values.level >= len(self.levels) or not len(self.levels[values.level].kinds):
            return pa.nulls(len(values.members), kind.to_arrow())
        level = self.levels[values.level]
        if kind.name in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(kind, values)
        kinds, starts, ends = values.of(level)
        if kind.name == "VOID":
            return pa.nulls(len(kinds))
        if kind.name == "BOOLEAN":
            return self._booleans(kind, kinds, starts, ends)
        if kind.name in _WHOLE:
            return self._whole_numbers(kind, values, kinds, starts, ends)
        present = (kinds != MISSING) & (kinds != NULL)
        if kind.name in _NO_NUMBERS:
            counts = IS_NUMBER[kinds]
            if counts.any():
                self._misfit(kind, values, np.flatnonzero(counts))
                present &= ~counts
        return self._from_texts(kind, values, self._texts(kinds, starts, ends, present))

    def _texts(
        self, kinds: np.ndarray, starts: np.ndarray, ends: np.ndarray, present: np.ndarray
    ) -> pa.StringArray:
        """The values as texts: strings without escapes, all others as they are spelled."""
        texts = self.text.slices(starts, ends, None if present.all() else present)
        if len(self.found.escapes):
            escaped = self.found.has_escape(starts, ends) & (kinds == QUOTE) & present
            if escaped.any():
                texts = pc.replace_with_mask(texts, pa.array(escaped), _unescaped(texts.filter(pa.array(escaped))))
        return texts

    def _from_texts(self, kind: DataType, values: _Values, texts: pa.StringArray) -> pa.Array:
        array, misfits = text_rule(kind, self.decoder.zone, self.decoder.standard).read(texts)
        if misfits.any():
            self._misfit(kind, values, np.flatnonzero(misfits))
        return array

    def _booleans(self, kind: DataType, kinds: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        absent = (kinds == MISSING) | (kinds == NULL)
        truth = kinds == TRUE
        strings = np.flatnonzero(kinds == QUOTE)
        if len(strings):
            texts = self._texts(kinds[strings], starts[strings], ends[strings], np.ones(len(strings), bool))
            spelled, _ = text_rule(kind).read(texts)
            truth[strings] = spelled.to_numpy(zero_copy_only=False)
        return pa.array(truth, mask=absent if absent.any() else None)

    def _whole_numbers(
        self, kind: DataType, values: _Values, kinds: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> pa.Array:
        level = self.levels[values.level]
        of = kind.to_arrow()
        numbers, plain = level.numbers[values.members], level.plain[values.members]
        if not values.complete:
            plain = plain & (kinds != MISSING)
        bounds = np.iinfo(of.to_pandas_dtype())
        plain = plain & (numbers >= bounds.min) & (numbers <= bounds.max)
        if plain.all():
            return pa.array(numbers.astype(of.to_pandas_dtype()))
        rest = np.flatnonzero(~plain & (kinds != MISSING) & (kinds != NULL))
        narrow, absent = np.where(plain, numbers, 0).astype(of.to_pandas_dtype()), ~plain
        if len(rest):
            texts = self._texts(kinds[rest], starts[rest], ends[rest], np.ones(len(rest), bool))
            if kind.name in _CUT:
                counted = IS_NUMBER[kinds[rest]]
                cut = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.[0-9]+$", r"\1")
                texts = _without_exponents(pc.if_else(pa.array(counted), cut, texts), counted)
            chosen = _Values(values.level, values.members[rest], complete=True)
            array = self._from_texts(kind, chosen, texts)
            narrow[rest], absent[rest] = array.fill_null(0), array.is_null()
        return pa.array(narrow, mask=absent)

    def _nested(self, kind: DataType, values: _Values) -> pa.Array:
        level = self.levels[values.level]
        kinds, _, _ = values.of(level)
        rows = np.flatnonzero(kinds == (ARRAY if kind.name == "ARRAY" else OBJECT))
        given = (kinds != MISSING) & (kinds != NULL)
        misfits = given.copy()
        misfits[rows] = False
        if misfits.any():
            self._misfit(kind, values, np.flatnonzero(misfits))
        there = np.zeros(len(kinds), bool)
        there[rows] = True
        if kind.name == "STRUCT":
            return self._structs(kind, values, rows, there)
        of = kind.to_arrow()
        if not len(rows):
            return pa.nulls(len(kinds), of)
        inner = self.levels[values.level + 1]
        containers = level.children[values.members[rows]]
        counts = np.zeros(len(kinds), np.int64)
        counts[rows] = inner.counts[containers]
        ends = np.cumsum(counts)
        total = int(ends[-1])
        starts = ends - counts
        members = np.arange(total) + np.repeat(inner.firsts[containers] - starts[rows], counts[rows])
        elements = _Values(values.level + 1, members, complete=True)
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32), mask=np.concatenate([~there, [False]]))
        if kind.name == "ARRAY":
            return pa.ListArray.from_arrays(offsets, self._array(_type(kind.args[0]), elements), type=of)
        keys = self._keys(inner, members)
        codes = keys.dictionary_encode()
        owners = np.repeat(np.arange(len(kinds)), counts)
        pairs = owners * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        # Of a key that is there twice the last value counts: the first one of the pairs from behind.
        _, last = np.unique(pairs[::-1], return_index=True)
        if len(last) < total:
            kept = np.sort(total - 1 - last)
            elements, keys, owners = _Values(elements.level, members[kept], complete=True), keys.take(pa.array(kept)), owners[kept]
            ends = np.cumsum(np.bincount(owners, minlength=len(kinds)))
            offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32), mask=np.concatenate([~there, [False]]))
        return pa.MapArray.from_arrays(offsets, keys, self._array(_type(kind.args[1]), elements), type=of)

    def _keys(self, level: Level, members: np.ndarray) -> pa.StringArray:
        starts, ends = level.key_starts[members], level.key_ends[members]
        kinds = np.full(len(members), QUOTE, np.uint8)
        return self._texts(kinds, starts, ends, np.ones(len(members), bool))

    def _structs(self, kind: DataType, values: _Values, rows: np.ndarray, there: np.ndarray) -> pa.Array:
        inner = self._inner_members(values, rows, kind)
        arrays = []
        for (_, of), member in zip(kind.fields(), inner, strict=True):
            if len(rows) < len(there):
                spread = np.full(len(there), -1)
                spread[rows] = member.members
                member = _Values(member.level, spread, complete=False)
            arrays.append(self._array(of, member))
        mask = None if there.all() else pa.array(~there)
        return pa.StructArray.from_arrays(arrays, fields=list(kind.to_arrow()), mask=mask)

    # --- misfits ----------------------------------------------------------------------------------------------

    def _misfit(self, kind: DataType, values: _Values, rows: np.ndarray) -> None:
        """Notes values that do not fit."""
        if self.decoder.ignores_errors:
            return
        level = self.levels[values.level]
        members = values.members[rows]
        kinds, starts, ends = level.kinds[members], level.starts[members], level.ends[members]
        texts = self._texts(kinds, starts, ends, np.ones(len(members), bool)).to_pylist()
        for member, text in zip(members.tolist(), texts, strict=True):
            root, path = self._path(values.level, member)
            message = f'column "{path}" of type {kind} is "{text[:_SHOWN]}"'
            self._misfits.append(_Misfit(root, self._column, int(level.starts[member]), path, message))

    def _path(self, depth: int, member: int) -> tuple[int, str]:
        """The row of a member, and its name in the record: ``a.b[0]``."""
        path = ""
        for level in reversed(self.levels[: depth + 1]):
            container = int(level.owners[member])
            if level.objects[container]:
                key = self._keys(level, np.array([member]))[0].as_py()
                path = f".{key}{path}"
            else:
                path = f"[{member - int(level.firsts[container])}]{path}"
            member = int(level.parents[container])
        return container, path[1:]


def _type(kind: object) -> DataType:
    assert isinstance(kind, DataType)
    return kind


def _unescaped(texts: pa.StringArray) -> pa.StringArray:
    """The texts that strings of JSON say, of which all escapes are valid."""
    strings = json.loads("[" + ",".join(f'"{text}"' for text in texts.to_pylist()) + "]", strict=False)
    try:
        return pa.array(strings, pa.string())
    except UnicodeEncodeError:  # half a pair of surrogates is no character
        return pa.array([s.encode(errors="replace").decode() for s in strings], pa.string())


def _without_exponents(texts: pa.StringArray, counted: np.ndarray) -> pa.StringArray:
    """Numbers with an exponent as whole numbers without, what is behind the point is cut; others as they are."""
    powers = pc.match_substring_regex(texts, "[eE]").to_numpy(zero_copy_only=False) & counted
    if not powers.any():
        return texts
    spelled = pa.array([_whole(text) for text in texts.filter(pa.array(powers)).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, pa.array(powers), spelled)


def _whole(number: str) -> str:
    """The whole part of a number with an exponent; the number as it is where it is too large for any type."""
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    mantissa, power = digits.lower().split("e")
    whole, _, part = mantissa.partition(".")
    if len(power.lstrip("+-")) > 9:
        large = not power.startswith("-") and (whole + part).strip("0")
        return number if large else "0"
    place = len(whole) + int(power)
    significant = (whole + part).lstrip("0")
    place -= len(whole + part) - len(significant)
    if place <= 0 or not significant:
        return "0"
    return number if place > 30 else sign + significant[:place].ljust(place, "0")

