"""JSON as the binary log of MySQL has it, as the text that the server prints of it.

A document is a tree of values that are found by offsets. All documents are read at once, one depth after the other. Of
each value there are some tokens: what is before it, its text or the bracket that opens it, the bracket that closes it.
How many tokens each has is known from the deepest values up, and then where they are, from the outermost ones down.

https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.binlog import BinlogError, Spans, decimal_bytes, little_endian
from sqlstream.formats.mysql_digits import Part, clock, dates, decimals, integers, little, matrix_of, spans, spelled
from sqlstream.formats.mysql_texts import decoded
from sqlstream.formats.text_rule import bytes_of, offsets_of

_OBJECT, _LARGE_OBJECT, _ARRAY, _LARGE_ARRAY, _LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64 = range(11)
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_DATE, _TIME, _TIMES, _DECIMAL = 10, 11, (7, 12), 246
"""Types of values, and of columns whose values JSON has as they are."""

_DEEPEST = 100
_OPENED, _CLOSED = (pa.array([*brackets], pa.string()) for brackets in ("{{[[", "}}]]"))
_LITERALS = pa.array(["null", "true", "false"])
_ESCAPED = {
    "\\": r"\\", '"': r"\"", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r",
    **{chr(code): f"\\u{code:04x}" for code in range(0x20) if chr(code) not in "\b\t\n\f\r"},
}  # fmt: skip
_PLAIN_POINTS = range(-14, 16)
"""Where the point of a number may be, counted from its first digit, that is spelled without exponent."""


def json_texts(data: np.ndarray, documents: Spans) -> pa.Array:
    """Returns documents as texts, NULL where there is none. BinlogError for one that cannot be read."""
    some = np.flatnonzero(documents.present)
    depths = [*_depths(data, documents.starts[some], documents.lengths[some])]
    begins, counts = _tokens(depths)
    types, at, ends = (np.concatenate([getattr(d, name) for d in depths]) for name in ("types", "at", "ends"))
    begin, count = np.concatenate(begins), np.concatenate(counts)
    closed = np.flatnonzero(types <= _LARGE_ARRAY)
    texts = _by_kind(types, lambda kind, which: _reader(kind)(data, at[which], ends[which], kind))
    tokens = pa.concat_arrays([*(_before(data, d) for d in depths), texts, _CLOSED.take(pa.array(types[closed]))])
    places = np.concatenate((begin, begin + 1, (begin + count - 1)[closed]))
    joined = tokens.take(pa.array(_inverse(places)))
    offsets = offsets_of(joined)[np.append(begins[0], len(places))]
    found = pa.Array.from_buffers(pa.string(), len(some), [None, pa.py_buffer(offsets), joined.buffers()[2]])
    return found.take(pa.array(np.cumsum(documents.present) - 1, mask=~documents.present))


# --- the tree -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Depth:
    """The values of one depth of all documents, in the order of these.

    ``at``: where the bytes of a value are, behind its type; ``ends``: where its document ends. ``parents``: the index
    of what it is in, in the depth above. ``key_at`` and ``key_lengths``: its name, with the length -1 if it has none.
    """

    types: np.ndarray
    at: np.ndarray
    ends: np.ndarray
    parents: np.ndarray
    key_at: np.ndarray
    key_lengths: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """The index of the first value that is in the same one as each."""
        firsts: np.ndarray = np.searchsorted(self.parents, self.parents, "left")
        return firsts


def _depths(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Iterator[_Depth]:
    types = np.where(lengths > 0, data.take(starts, mode="clip"), _LITERAL)
    own = np.arange(len(starts))
    depth: _Depth | None = _Depth(types, starts + 1, starts + lengths, own, starts, np.full(len(starts), -1))
    above = 0
    while depth is not None:
        if above > _DEEPEST:
            raise BinlogError("a JSON document is nested too deeply")
        yield depth
        depth, above = _inside(data, depth), above + 1


def _inside(data: np.ndarray, depth: _Depth) -> _Depth | None:
    """The members of objects and the elements of arrays; None where there are neither."""
    which = np.flatnonzero(depth.types <= _LARGE_ARRAY)
    if not len(which):
        return None
    types, begin, ends = depth.types[which], depth.at[which], depth.ends[which]
    has_keys, is_large = types <= _LARGE_OBJECT, types % 2 == 1
    width = np.where(is_large, 4, 2)
    counts = _number(data, begin, is_large)
    keys = begin + 2 * width
    values = keys + np.where(has_keys, counts * (width + 2), 0)
    _require((values + counts * (width + 1) <= ends).all())
    of = np.repeat(np.arange(len(which)), counts)
    n = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin, ends, width, is_large, has_keys = begin[of], ends[of], width[of], is_large[of], has_keys[of]
    value, key = values[of] + n * (width + 1), keys[of] + n * (width + 2)
    types = data.take(value, mode="clip")
    inlined = np.isin(types, (_LITERAL, _INT16, _UINT16)) | (is_large & np.isin(types, (_INT32, _UINT32)))
    at = np.where(inlined, value + 1, begin + _number(data, value + 1, is_large))
    key_at = begin + _number(data, key, is_large)
    key_lengths = np.where(has_keys, little_endian(data, key + width, 2), -1)
    _require((at > begin).all() and ((key_at + key_lengths <= ends) | ~has_keys).all())
    return _Depth(types, at, ends, which[of], key_at, key_lengths)


def _number(data: np.ndarray, at: np.ndarray, is_large: np.ndarray) -> np.ndarray:
    return np.where(is_large, little_endian(data, at, 4), little_endian(data, at, 2))


def _tokens(depths: list[_Depth]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of each depth the number of the first token of each value, and how many it has with all that is in it."""
    counts = [np.where(depth.types <= _LARGE_ARRAY, 3, 2) for depth in depths]
    for n in range(len(depths) - 1, 0, -1):
        counts[n - 1] += np.bincount(depths[n].parents, counts[n], len(counts[n - 1])).astype(np.int64)
    before = [np.cumsum(count) - count for count in counts]
    begins = before[:1]
    for depth, earlier in zip(depths[1:], before[1:], strict=True):
        begins.append(begins[-1][depth.parents] + 2 + earlier - earlier[depth.firsts])
    return begins, counts


def _before(data: np.ndarray, depth: _Depth) -> pa.Array:
    """What is before each value: a comma, and its name."""
    commas = pa.array(["", ", "], pa.string()).take(
        pa.array((depth.firsts != np.arange(len(depth.at))).astype(np.int8))
    )
    named = np.flatnonzero(depth.key_lengths >= 0)
    if not len(named):
        return commas
    keys = pc.binary_join_element_wise(_quoted(_bytes(data, depth.key_at[named], depth.key_lengths[named])), ": ", "")
    every = keys.take(pa.array(np.cumsum(depth.key_lengths >= 0) - 1, mask=depth.key_lengths < 0)).fill_null("")
    return pc.binary_join_element_wise(commas, every, "")


# --- values ---------------------------------------------------------------------------------------------------


def _by_kind(kinds: np.ndarray, read: Callable[[int, np.ndarray], pa.Array]) -> pa.Array:
    """Texts of values, those of a kind read together. ``read``: takes a kind and the indexes of its values."""
    order = np.argsort(kinds, kind="stable")
    different, firsts = np.unique(kinds[order], return_index=True)
    parts = [
        read(int(kind), order[begin:end])
        for kind, (begin, end) in zip(different, pairwise((*firsts.tolist(), len(order))), strict=True)
    ]
    return pa.concat_arrays(parts or [pa.array([], pa.string())]).take(pa.array(_inverse(order)))


def _inverse(order: np.ndarray) -> np.ndarray:
    """Of places in an order, where each of them is."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _opened(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    return pa.repeat(_OPENED[kind], len(at))


def _literals(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    """An empty document is null, as INSERT IGNORE makes one in a column that is NOT NULL."""
    codes = np.where(at > ends, 0, data.take(at, mode="clip"))
    _require((at != ends).all() and (codes < len(_LITERALS)).all())
    return _LITERALS.take(pa.array(codes))


_BYTES = {_INT16: 2, _UINT16: 2, _INT32: 4, _UINT32: 4, _INT64: 8, _UINT64: 8}


def _integers(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    return integers(_matrix(data, at, ends, _BYTES[kind]), unsigned=kind in (_UINT16, _UINT32, _UINT64))


def _doubles(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    """With the fewest digits that say which number it is; a whole number ends in .0, and one with many digits before
    the point or zeros behind it has an exponent.
    """
    numbers = np.ascontiguousarray(_matrix(data, at, ends, 8)).view("<f8").reshape(-1)
    parts = pc.extract_regex(
        pa.array(numbers).cast(pa.string()),
        r"^(?P<sign>-?)(?P<whole>[0-9]+)\.?(?P<behind>[0-9]*)(?:e\+?(?P<exponent>-?[0-9]+))?$",
    )
    sign, whole, behind, exponent = (pc.struct_field(parts, name) for name in ("sign", "whole", "behind", "exponent"))
    exponent = pc.if_else(pc.equal(exponent, ""), "0", exponent).cast(pa.int64())
    digits = pc.binary_join_element_wise(whole, behind, "")
    significant = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    point = pc.add(pc.subtract(pc.utf8_length(whole), zeros), exponent).to_numpy()
    point = np.where(numbers == 0, 1, point)
    significant = pc.utf8_rtrim(significant, "0")
    texts = _by_kind(
        np.clip(point, _PLAIN_POINTS[0] - 1, _PLAIN_POINTS[-1] + 1),
        lambda place, which: _pointed(significant.take(pa.array(which)), place, point[which]),
    )
    return pc.binary_join_element_wise(sign, texts, "")


def _pointed(digits: pa.Array, place: int, points: np.ndarray) -> pa.Array:
    """Digits with a point before so many of them, or with an exponent."""
    if place not in _PLAIN_POINTS:
        rest = pc.utf8_slice_codeunits(digits, 1)
        behind = pc.if_else(pc.equal(rest, ""), "", pc.binary_join_element_wise(".", rest, ""))
        exponents = pa.array(points - 1).cast(pa.string())
        return pc.binary_join_element_wise(pc.utf8_slice_codeunits(digits, 0, 1), behind, "e", exponents, "")
    if place <= 0:
        return pc.binary_join_element_wise("0." + "0" * -place, digits, "")
    padded = pc.utf8_rpad(digits, place + 1, "0")
    return pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(padded, 0, place), pc.utf8_slice_codeunits(padded, place), "."
    )


def _strings(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    return _quoted(_bytes(data, *_sized(data, at, ends)))


def _quoted(raw: pa.Array) -> pa.Array:
    texts = decoded(raw, "utf8mb4")
    offsets = offsets_of(texts)
    content = bytes_of(texts)[offsets[0] : offsets[-1]]
    odd = {*np.unique(content[(content < 0x20) | (content == ord('"')) | (content == ord("\\"))]).tolist()}
    for character, escaped in _ESCAPED.items() if odd else ():
        if ord(character) in odd:
            texts = pc.replace_substring(texts, character, escaped)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _opaque(data: np.ndarray, at: np.ndarray, ends: np.ndarray, kind: int) -> pa.Array:
    """Values of columns of other types than JSON has: numbers, times, and bytes behind the number of their type."""
    types = data.take(at, mode="clip")
    starts, lengths = _sized(data, at + 1, ends)

    def read(type_: int, which: np.ndarray) -> pa.Array:
        begin, end = starts[which], (starts + lengths)[which]
        if type_ == _DECIMAL:
            return _decimals(data, begin, end)
        if type_ in (_DATE, _TIME, *_TIMES):
            texts = _times(little(_matrix(data, begin, end, 8)).view(np.int64), type_)
        else:
            different = _bytes(data, begin, lengths[which]).dictionary_encode()
            encoded = [f"base64:type{type_}:{_base64(value)}" for value in different.dictionary.to_pylist()]
            texts = pa.array(encoded, pa.string()).take(different.indices)
        return pc.binary_join_element_wise('"', texts, '"', "")

    return _by_kind(types, read)


def _base64(value: bytes) -> str:
    """In lines, whose ends the server prints as JSON does."""
    return base64.encodebytes(value).decode().removesuffix("\n").replace("\n", r"\n")


def _decimals(data: np.ndarray, at: np.ndarray, ends: np.ndarray) -> pa.Array:
    sizes = _matrix(data, at, ends, 2).astype(np.int64)

    def read(size: int, which: np.ndarray) -> pa.Array:
        digits, scale = divmod(size, 256)
        return decimals(_matrix(data, at[which] + 2, ends[which], decimal_bytes(digits, scale)), digits, scale)

    return _by_kind(sizes[:, 0] << 8 | sizes[:, 1], read)


def _times(packed: np.ndarray, type_: int) -> pa.Array:
    negative, packed = packed < 0, np.abs(packed)
    fraction: list[Part] = [".", (packed & 0xFFFFFF, 6)]
    packed = packed >> 24
    if type_ == _TIME:
        return spans(packed, negative, fraction)
    date = dates(packed >> 22, packed >> 17 & 31)
    return spelled(date if type_ == _DATE else [*date, " ", *clock(packed), *fraction], len(packed))


_Reader = Callable[[np.ndarray, np.ndarray, np.ndarray, int], pa.Array]

_READ: Mapping[int, _Reader] = {
    **dict.fromkeys((_OBJECT, _LARGE_OBJECT, _ARRAY, _LARGE_ARRAY), _opened),
    _LITERAL: _literals,
    **dict.fromkeys(_BYTES, _integers),
    _DOUBLE: _doubles,
    _STRING: _strings,
    _OPAQUE: _opaque,
}


def _reader(kind: int) -> _Reader:
    if kind not in _READ:
        raise BinlogError(f"a JSON document has a value of a type that is not known ({kind})")
    return _READ[kind]


# --- bytes ----------------------------------------------------------------------------------------------------


def _require(holds: bool | np.bool_) -> None:
    if not holds:
        raise BinlogError("a JSON document is damaged")


def _matrix(data: np.ndarray, at: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    _require((at + size <= ends).all())
    return matrix_of(data, at, size)


def _sized(data: np.ndarray, at: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where values begin that are behind their length, of which each byte has seven bits, and how long they are."""
    lengths, more = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    for n in range(5):
        byte = data.take(at, mode="clip").astype(np.int64)
        lengths += np.where(more, (byte & 0x7F) << 7 * n, 0)
        at = at + more
        more &= byte >= 0x80
    _require(not more.any() and (at + lengths <= ends).all())
    return at, lengths


def _bytes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Bytes of any order, which may also be the same ones."""
    order = np.argsort(starts, kind="stable")
    return slices(data, starts[order], (starts + lengths)[order]).take(pa.array(_inverse(order)))
