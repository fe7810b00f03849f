"""Columns from the places of values in records of JSON, and the values that do not fit the types of the columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.debezium import LogicalRule
from sqlstream.formats.decoder import Field, rows_of_nothing
from sqlstream.formats.json_keys import keys, with_repeated_keys
from sqlstream.formats.json_records import RawJson, parse_value, spelled
from sqlstream.formats.json_structure import Level, Structure
from sqlstream.formats.json_text import ARRAY, IS_NUMBER, MISSING, NULL, OBJECT, QUOTE, TRUE
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_CUT = frozenset({"INT", "BIGINT"})
_NO_NUMBERS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ"})
SCALARS = _WHOLE | _NO_NUMBERS | {"BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "INTERVAL", "VOID"}
_SHOWN = 100
"""Characters of a value in a reason."""


@dataclass(frozen=True)
class Rules:
    """What is required of the values of JSON records: the declared columns, and the options that ``JsonDecoder``
    describes.
    """

    fields: tuple[Field, ...]
    fails_on_missing: bool
    ignores_errors: bool
    standard: str | None
    zone: str
    unit: str | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows: the wanted columns in declared order."""
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])


@dataclass
class _Values:
    """Members of a level, one for each row of a column; -1 where the row has none."""

    level: int
    chosen: np.ndarray | slice
    complete: bool
    """No row is without one."""

    @property
    def members(self) -> np.ndarray:
        """The numbers of the members."""
        chosen = self.chosen
        return np.arange(chosen.start, chosen.stop, chosen.step) if isinstance(chosen, slice) else chosen

    def __len__(self) -> int:
        chosen = self.chosen
        return len(range(chosen.start, chosen.stop, chosen.step or 1)) if isinstance(chosen, slice) else len(chosen)

    def of(self, level: Level) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The kinds, starts and ends."""
        kinds, starts, ends = level.kinds[self.chosen], level.starts[self.chosen], level.ends[self.chosen]
        return (kinds if self.complete else np.where(self.members < 0, MISSING, kinds)), starts, ends


@dataclass
class _Misfit:
    root: int
    column: int
    member: int
    path: str
    message: str


class Rows:
    """Converts the parsed structure of JSON records into Arrow columns, one row per record.

    ``batch`` has a row for every record, including invalid ones; ``reasons`` lists the invalid ones.
    """

    def __init__(self, rules: Rules, found: Structure) -> None:
        self.rules, self.found, self.text = rules, found, found.text
        self.levels = found.levels
        self._misfits: list[_Misfit] = []
        self._missing: dict[int, list[str]] = {}
        self._column = 0
        roots = len(found.roots)
        names = [(f.name, f.type) for f in rules.fields]
        present = np.arange(roots)
        members = self._members(0, present, [n for n, _ in names], found.odd[found.roots])
        columns = []
        for self._column, (f, values) in enumerate(zip(rules.fields, members, strict=True)):
            self._note_missing(f.name, f.type, values, ~found.odd[found.roots])
            if f.wanted or f.type.name not in ("STRING", "BOOLEAN", "VOID"):
                columns.append((f, self._array(f.type, values)))
        wanted = [array for f, array in columns if f.wanted]
        self.batch = pa.record_batch(wanted, rules.schema) if wanted else rows_of_nothing(roots)

    def reasons(self) -> list[tuple[int, str]]:
        """Returns pairs of a row index and the reason why that record is invalid, in ascending order."""
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
        group = self.levels[level].group_of(containers)
        if group is not None:
            size, first = len(containers), self.levels[level].first_members[group]
            columns = keys(tuple(names)).columns(self.text, self.levels[level], group)
            nothing = np.full(size, -1)
            chosen = [nothing if c < 0 else slice(first + c * size, first + (c + 1) * size) for c in columns]
            return [_Values(level, c, isinstance(c, slice)) for c in chosen]
        whole = not self.levels[level].groups and len(containers) == len(self.levels[level].objects)
        if whole and bool((np.diff(containers) == 1).all()) and (without is None or not without.any()):
            repeated = keys(tuple(names)).repeated(self.text, self.levels[level])
            if repeated is not None:
                width, nothing = self.levels[level].width, np.full(len(containers), -1)
                steps = [nothing if c < 0 else slice(c, len(containers) * width, width) for c in repeated]
                return [_Values(level, c, isinstance(c, slice)) for c in steps]
        table = keys(tuple(names)).members(self.text, self.levels[level], containers)
        if without is not None and without.any():
            table[:, without] = -1
        return [_Values(level, row, bool((row >= 0).all())) for row in table]

    def _note_missing(self, path: str, kind: DataType, values: _Values, there: np.ndarray) -> None:
        """Notes the fields that objects lack, if that is a fault; ``there``: which rows have an object around it."""
        if not self.rules.fails_on_missing:
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
            return np.full(len(values), MISSING)
        level = self.levels[values.level]
        return level.kinds[values.members] if len(level.kinds) else np.full(len(values), MISSING)

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
            return pa.nulls(len(values), kind.to_arrow())
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
        if isinstance(kind, RawJson):
            return self._raw_json(values, kinds, starts, ends)
        present = (kinds != MISSING) & (kinds != NULL)
        if self.rules.unit is not None and kind.is_timestamp:
            counted = LogicalRule(kind, self.rules.unit, self.rules.zone, self.rules.standard)
            return self._noted(kind, values, *counted.read(self._texts(kinds, starts, ends, present)))
        if kind.name in _NO_NUMBERS:
            counts = IS_NUMBER[kinds]
            if counts.any():
                self._misfit(kind, values, np.flatnonzero(counts))
                present &= ~counts
        return self._from_texts(kind, values, self._texts(kinds, starts, ends, present))

    def _texts(self, kinds: np.ndarray, starts: np.ndarray, ends: np.ndarray, present: np.ndarray) -> pa.StringArray:
        """The values as texts: strings without escapes, all others as they are spelled."""
        texts = self.text.slices(starts, ends, None if present.all() else present)
        if len(self.found.escapes):
            escaped = self.found.has_escape(starts, ends) & (kinds == QUOTE) & present
            if escaped.any():
                texts = pc.replace_with_mask(texts, pa.array(escaped), _unescaped(texts.filter(pa.array(escaped))))
        return texts

    def _from_texts(self, kind: DataType, values: _Values, texts: pa.StringArray) -> pa.Array:
        return self._noted(kind, values, *text_rule(kind, self.rules.zone, self.rules.standard).read(texts))

    def _noted(self, kind: DataType, values: _Values, array: pa.Array, misfits: np.ndarray) -> pa.Array:
        if misfits.any():
            self._misfit(kind, values, np.flatnonzero(misfits))
        return array

    def _raw_json(self, values: _Values, kinds: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        """The values as JSON that Spark reads: no object has a key twice, no string has control characters."""
        if self.found.ordinary:
            return self._texts(kinds, starts, ends, kinds != MISSING)
        quotes = kinds == QUOTE
        texts = self.text.slices(starts - quotes, ends + quotes, kinds != MISSING)
        odd = self.found.has_control(starts, ends) & (kinds != MISSING)
        nested = np.flatnonzero((kinds == OBJECT) | (kinds == ARRAY))
        if len(nested):
            children = self.levels[values.level].children[values.members[nested]]
            odd[nested] |= self._repeated[values.level + 1][children]
        if odd.any():
            again = [spelled(parse_value(text)) for text in texts.filter(pa.array(odd)).to_pylist()]
            texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(again, pa.string()))
        return texts

    @cached_property
    def _repeated(self) -> list[np.ndarray]:
        return with_repeated_keys(self.text, self.levels)

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
        numbers, plain = level.numbers[values.chosen], level.plain[values.chosen]
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
        if kind.name == "ARRAY":
            counts[rows], chosen = inner.elements_of(containers)
            elements = _Values(values.level + 1, chosen, complete=True)
            return pa.ListArray.from_arrays(_offsets(counts, there), self._array(kind.inner[0], elements), type=of)
        counts[rows], members = inner.members_of(containers)
        elements, total = _Values(values.level + 1, members, complete=True), len(members)
        names = self._keys(inner, members)
        codes = names.dictionary_encode()
        owners = np.repeat(np.arange(len(kinds)), counts)
        pairs = owners * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        # Of a key that is there twice the last value counts: the first one of the pairs from behind.
        _, last = np.unique(pairs[::-1], return_index=True)
        if len(last) < total:
            kept = np.sort(total - 1 - last)
            elements, names = _Values(elements.level, members[kept], complete=True), names.take(pa.array(kept))
            counts = np.bincount(owners[kept], minlength=len(kinds))
        return pa.MapArray.from_arrays(_offsets(counts, there), names, self._array(kind.inner[1], elements), type=of)

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
        if self.rules.ignores_errors:
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


def _offsets(counts: np.ndarray, there: np.ndarray) -> pa.Int32Array:
    """Where the elements of each list begin and end; NULL for lists that are not there."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets, mask=None if there.all() else np.append(~there, False))


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
