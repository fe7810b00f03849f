"""Values as PostgreSQL prints them: in its log and in what COPY writes, so that both are read by one rule.

The server prints with the settings of ``PRINTING``. A STRING is what CAST(… AS text) gives, which for a few types is
not what the server prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.text_rule import bytes_of, offsets_of, where
from sqlstream.formats.values import text_rule
from sqlstream.types import STRING, DataType

PRINTING = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
}
"""The settings of the server that say how it prints values."""

Read = tuple[pa.Array, np.ndarray]
"""Values, and which of the texts are none of the type: these are NULL."""


def values_of(texts: pa.StringArray, declared: DataType, stored: str) -> Read:
    """Returns the values of the type ``declared`` of a column that is of the type ``stored`` in the database."""
    if declared.name == "ARRAY":
        element = declared.args[0]
        assert isinstance(element, DataType)
        return _lists(texts, element, stored.removesuffix("[]"))
    spelled = _SPELLED.get((declared.name, stored), lambda same: same)(texts)
    if declared.name == "BOOLEAN":
        return _booleans(spelled)
    if declared.name == "BINARY":
        return _bytes(spelled)
    return text_rule(declared).read(spelled)


def _without_offset(texts: pa.StringArray) -> pa.StringArray:
    """Times without their offset, which is always that of UTC. Years before our era are no times with or without it."""
    return pc.if_else(pc.ends_with(texts, "+00"), pc.utf8_slice_codeunits(texts, 0, -3), texts)


_SPELLED: Mapping[tuple[str, str], Callable[[pa.StringArray], pa.StringArray]] = {
    ("STRING", "boolean"): lambda texts: pc.if_else(pc.equal(texts, "t"), "true", "false"),
    **dict.fromkeys((("STRING", "character"), ("STRING", "bpchar")), lambda texts: pc.utf8_rtrim(texts, " ")),
    ("STRING", "inet"): lambda texts: pc.replace_substring_regex(
        pc.replace_substring_regex(texts, r"^([0-9.]+)$", r"\1/32"), r"^([0-9a-fA-F.]*:[0-9a-fA-F:.]*)$", r"\1/128"
    ),
    ("TIMESTAMP", "timestamp with time zone"): _without_offset,
    ("TIMESTAMP_NTZ", "timestamp with time zone"): _without_offset,
}
"""By declared and stored type: the texts as the rule of the declared type reads them."""


def _booleans(texts: pa.StringArray) -> Read:
    """Also of texts, of which a column was before it was BOOLEAN."""
    wrong = pc.invert(pc.is_in(texts, pa.array(["t", "f", "true", "false", None], pa.string())))
    values = pc.is_in(texts, pa.array(["t", "true"], pa.string()))
    return where(pc.and_(pc.is_valid(texts), pc.invert(wrong)), values), wrong.to_numpy(zero_copy_only=False)


_NIBBLES = np.full(256, 0xFF, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


def _bytes(texts: pa.StringArray) -> Read:
    """The bytes that texts such as ``\\x00ff`` spell."""
    wrong = pc.invert(pc.starts_with(texts, "\\x")).fill_null(False).to_numpy(zero_copy_only=False)
    wrong = wrong | (pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False) % 2 == 1)
    given = pc.if_else(pa.array(wrong), None, texts) if wrong.any() else texts
    present = pa.concat_arrays([given.fill_null("\\x")])
    characters, ends = bytes_of(present), offsets_of(present)
    digits = _NIBBLES[characters[ends[0] : ends[-1]]].reshape(-1, 2)
    marks = (ends[:-1] - ends[0]) // 2  # of \x, which would be a byte
    kept = np.ones(len(digits), bool)
    kept[marks] = False
    if (odd := np.flatnonzero(kept & (digits == 0xFF).any(axis=1))).size:
        wrong[np.searchsorted(marks, odd, "right") - 1] = True
    values = (digits[:, 0] << 4) | digits[:, 1]
    offsets = ((ends - ends[0]) // 2 - np.arange(len(ends))).astype(np.int32)
    found = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(values[kept])])
    return where(pc.and_(pc.is_valid(texts), pa.array(~wrong)), found), wrong


# --- arrays ---------------------------------------------------------------------------------------------------

_ODD = r"^[^{]|^\{\{"
"""Arrays with bounds, [0:1]={1,2}, and of several dimensions."""
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_ELEMENT = r'"(,(?:[^"\\]|\\.)*)"|([^,{}"]+)'
_CONTROL = re.compile(r"[\x00-\x1f]")


def _lists(texts: pa.StringArray, element: DataType, stored: str) -> Read:
    """Arrays such as ``{1,NULL,"a b"}``, by way of JSON.

    An element in quotes gets a comma before it, which no other has: without quotes NULL is no value, and with them it
    is a text.
    """
    odd = pc.match_substring_regex(texts, _ODD).fill_null(False)
    spelled = pc.if_else(odd, None, texts)
    spelled = pc.replace_substring_regex(spelled, f"(?s){_QUOTED}", r'",\1"')
    spelled = pc.replace_substring_regex(spelled, f"(?s){_ELEMENT}", r'"\1\2"')
    if pc.any(pc.match_substring_regex(spelled, r"[\x00-\x1f]")).as_py():
        for code in range(1, 0x20):
            spelled = pc.replace_substring(spelled, chr(code), f"\\u{code:04x}")
    inner = pc.replace_substring_regex(spelled, r"(?s)^\{(.*)\}$", r'{"v":[\1]}')
    decoder = JsonDecoder((Field("v", DataType("ARRAY", (STRING,))),))
    decoded = decoder.messages(inner.fill_null('{"v":null}').cast(pa.binary()))
    lists = decoded.rows.column(0)
    elements = lists.flatten()
    elements = pc.if_else(pc.equal(elements, "NULL"), None, elements)
    elements = pc.replace_substring_regex(elements, r"(?s)^,", "")
    values, wrong = values_of(elements, element, stored)
    offsets = np.concatenate(([0], np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False))))
    kind = pa.list_(values.type)
    found = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values).cast(kind)
    of_list = np.repeat(np.arange(len(lists)), np.diff(offsets))
    misfits = odd.to_numpy(zero_copy_only=False).copy()
    misfits[of_list[wrong]] = True
    return where(pa.array(lists.is_valid().to_numpy(zero_copy_only=False) & ~misfits), found), misfits
