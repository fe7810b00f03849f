"""The Python functions that scripts of peers' cases name: the notes of a case say what they do."""

from __future__ import annotations


async def minus_twice(x: int) -> int:
    return -2 * x
