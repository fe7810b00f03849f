"""Groups of protobuf: messages between two tags, one that begins them and one that ends them, without their length."""

from __future__ import annotations

import numpy as np

from sqlstream.formats.avro_cursor import Cursor

VARINT, WORD, BYTES, BEGIN, END, HALF = range(6)
"""How values are written: in as many bytes as they need, in eight, after their length, between two tags, in four."""

SIZES = {WORD: 8, HALF: 4}
NUMBERS_END = 1 << 29
MOST_NESTED = 100
"""Groups within each other, as Google's library takes them."""
NOT_BEGUN = "it ends a group that has not begun"
NO_FIELD = "it has no field of protobuf"


def skip_group(cursor: Cursor, number: int, path: str) -> np.ndarray:
    """Moves behind groups whose first tags were read, and returns where what is in them ends. ``number``: of their
    field. Groups that are not whole are faults.
    """
    at, ends = cursor.at.copy(), cursor.ends.copy()
    opened = np.full((len(cursor), 1), number, np.int64)
    """The numbers of the groups that each is in."""
    depths, live = np.ones(len(cursor), np.int64), np.arange(len(cursor))
    while len(live):
        inner = cursor.of(live)
        inner.at = at[live]
        tags = inner.bits(path)
        alive = _step(inner, tags, path)
        numbers, wires = (tags >> np.uint64(3)).view(np.int64), tags & np.uint64(7)
        begins = np.flatnonzero(alive & (wires == BEGIN))
        if len(begins):
            if depths[live[begins]].max() == opened.shape[1]:
                opened = np.pad(opened, ((0, 0), (0, opened.shape[1])))
            opened[live[begins], depths[live[begins]]] = numbers[begins]
            depths[live[begins]] += 1
            deep = np.zeros(len(live), bool)
            deep[begins] = depths[live[begins]] > MOST_NESTED
            inner.fail(deep, "it is nested too deeply")
            alive &= ~deep
        stops = np.flatnonzero(alive & (wires == END))
        if len(stops):
            depths[live[stops]] -= 1
            other = np.zeros(len(live), bool)
            other[stops] = opened[live[stops], depths[live[stops]]] != numbers[stops]
            inner.fail(other, NOT_BEGUN)
            alive &= ~other
        over = alive & (depths[live] == 0)
        ends[live[over]] = at[live[over]]
        at[live] = np.where(alive, inner.at, inner.ends)
        live = live[alive & ~over]
    cursor.at = at
    return ends


def _step(cursor: Cursor, tags: np.ndarray, path: str) -> np.ndarray:
    """Moves behind the values of fields. Returns which of them there are: the others are faults."""
    numbers, wires = tags >> np.uint64(3), tags & np.uint64(7)
    wrong = (numbers == 0) | (numbers >= NUMBERS_END) | (wires > HALF)
    cursor.fail(wrong, NO_FIELD)
    cursor.at = np.where(wrong, cursor.ends, cursor.at)
    for wire in np.unique(wires[~wrong]).tolist():
        lanes = np.flatnonzero((wires == wire) & ~wrong)
        inner = cursor.of(lanes)
        if wire == VARINT:
            inner.bits(path)
        elif wire in SIZES:
            inner.word(SIZES[wire], path)
        elif wire == BYTES:
            inner.skip(inner.bits(path).view(np.int64), path)
        cursor.at[lanes] = inner.at
    unfinished = ~wrong & (cursor.at >= cursor.ends) & (wires != END)
    cursor.fail(unfinished, f"it ends within {path}")
    alive: np.ndarray = ~wrong & ~unfinished
    return alive
