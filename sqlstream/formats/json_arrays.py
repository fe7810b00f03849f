"""Records of JSON that are arrays of objects, each of which is a row, as in Flink's format ``json`` since 2.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import cut

_END = 0xFF
"""What stands behind each record: no UTF-8 has it."""


class Elements(NamedTuple):
    """The texts between the brackets and commas of arrays, without the white space around them, and of which array
    each is. ``broken``: whether a text is no array: brackets are missing, or something follows them.
    """

    texts: pa.BinaryArray
    owners: np.ndarray
    broken: np.ndarray


def elements_of(records: Sequence[bytes]) -> Elements:
    """Returns the elements of records that begin with a bracket. Whether these are JSON is not looked at: whoever reads
    them finds that.
    """
    trimmed = [record.strip(b" \t\r\n") for record in records]
    data = np.frombuffer(b"".join(record + bytes([_END]) for record in trimmed), np.uint8)
    ends = np.cumsum([len(record) + 1 for record in trimmed]) - 1
    starts = np.append(0, ends[:-1] + 1)
    record_of = np.repeat(np.arange(len(trimmed)), ends - starts + 1)
    outside = ~_in_strings(data, starts, record_of)
    steps = np.zeros(len(data), np.int64)
    steps[outside & ((data | 0x20) == ord("{"))] = 1
    steps[outside & ((data | 0x20) == ord("}"))] = -1
    depth = np.cumsum(steps)
    depth -= (depth[starts] - steps[starts])[record_of]  # that before each record, whatever the ones before it are
    is_comma = outside & (data == ord(",")) & (depth == 1)
    # Whole arrays end with the only bracket that leads out of them.
    out = np.bincount(record_of[(depth <= 0) & (data != _END)], minlength=len(trimmed))
    broken = (out != 1) | (depth[ends] != 0) | (data[ends - 1] != ord("]"))
    bounds = np.flatnonzero(is_comma & ~broken[record_of])
    begin = np.sort(np.concatenate([starts[~broken], bounds])) + 1
    end = np.sort(np.concatenate([ends[~broken] - 1, bounds]))
    owners = record_of[begin - 1]
    texts = cut(pa.py_buffer(data), begin, end)
    blank = pc.match_substring_regex(texts, r"^[ \t\r\n]*$").to_numpy(zero_copy_only=False)
    alone = np.bincount(owners, minlength=len(trimmed))[owners] == 1
    kept = ~(blank & alone)  # nothing between the brackets
    return Elements(texts.filter(pa.array(kept)), owners[kept], broken)


def _in_strings(data: np.ndarray, starts: np.ndarray, record_of: np.ndarray) -> np.ndarray:
    """Which bytes are within strings, their opening quotes among them. A quote behind an odd number of backslashes ends
    no string.
    """
    is_slash = data == ord("\\")
    positions = np.arange(len(data))
    last_other = np.maximum.accumulate(np.where(is_slash, -1, positions))
    before = np.append(-1, last_other[:-1])  # the last byte before each that is no backslash
    is_escaped = (positions - 1 - before) % 2 == 1
    opens = np.cumsum((data == ord('"')) & ~is_escaped)
    opens -= np.append(0, opens)[starts][record_of]
    inside: np.ndarray = opens % 2 == 1
    return inside
