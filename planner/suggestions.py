"""Hints for misspelt names, and counts in messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 12


def did_you_mean(name: str, candidates: Iterable[str], valid: str | None = None) -> str | None:
    """``Did you mean "price"?``, or a list of what is ``valid`` (a plural noun) when nothing is near, or None."""
    by_key = {c.casefold(): c for c in candidates}
    near = get_close_matches(name.casefold(), by_key, n=2, cutoff=0.6)
    if near:
        return "Did you mean " + " or ".join(f'"{by_key[n]}"' for n in near) + "?"
    if valid is None or not by_key:
        return None
    shown = ", ".join(f'"{c}"' for c in list(by_key.values())[:_SHOWN])
    more = len(by_key) - _SHOWN
    return f"The {valid} are {shown}{f' and {more} more' if more > 0 else ''}."


def counted(number: int, noun: str) -> str:
    """``1 column``, ``2,000 columns``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
