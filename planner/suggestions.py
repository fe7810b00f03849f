"""Hints for misspelt names, and counts in messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_SHOWN = 12
_NEAR, _GOOD = 0.6, 0.75  # of difflib: 1 is the same word
_AS_NEAR = 0.1


def did_you_mean(name: str, candidates: Iterable[str], valid: str | None = None) -> str | None:
    """Returns the hint ``Did you mean "price"?`` with the most similar of ``candidates``. If none is similar, returns
    their list, introduced by ``valid`` (a plural noun such as "columns"); None if that is not given.
    """
    spellings = list({c.casefold(): c for c in candidates}.values())
    near = _near(name, spellings, _NEAR)
    if near:
        return _question(near)
    if valid is None or not spellings:
        return None
    shown = ", ".join(f'"{c}"' for c in spellings[:_SHOWN])
    more = len(spellings) - _SHOWN
    return f"The {valid} are {shown}{f' and {more} more' if more > 0 else ''}."


def one_of_many(name: str, candidates: Iterable[str]) -> str | None:
    """The hint ``Did you mean "upper"?``, only for a very similar name, because among hundreds of candidates some are
    always similar; else None.
    """
    near = _near(name, list(candidates), _GOOD)
    return _question(near) if near else None


def with_list(name: str, candidates: Iterable[str], what: str) -> str:
    """The hint for a wrong name: the most similar candidate if there is a good one; else similar ones, followed by the
    list of all. ``what`` is a plural noun for the candidates.
    """
    names = sorted(candidates)
    good = one_of_many(name, names)
    return good or " ".join(filter(None, (did_you_mean(name, names), f"{what}: {', '.join(names) or 'none'}.")))


def _near(name: str, candidates: Iterable[str], least: float) -> list[str]:
    """The nearest candidate, and the next one where it is as good as that."""
    by_key = {c.casefold(): c for c in candidates}
    folded = name.casefold()
    near = get_close_matches(folded, by_key, n=2, cutoff=least)
    ratios = [SequenceMatcher(None, candidate, folded).ratio() for candidate in near]
    return [by_key[n] for n, ratio in zip(near, ratios, strict=True) if ratio > ratios[0] - _AS_NEAR]


def _question(near: list[str]) -> str:
    return "Did you mean " + " or ".join(f'"{name}"' for name in near) + "?"


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 column``, ``2,000 columns``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
