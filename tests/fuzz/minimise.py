"""The smallest text that still shows what a long one showed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.mutation import words_of

_MOST_TRIES = 600


def minimised(text: str, shows: Callable[[str], bool]) -> str:
    """The text without whatever words, then characters, are not needed for ``shows`` to hold."""
    left = _MOST_TRIES

    def tried(candidate: str) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and shows(candidate)

    by_words = _without_runs(words_of(text), tried)
    return "".join(_without_runs(list("".join(by_words)), tried)) if len(by_words) < 40 else "".join(by_words)


def _without_runs(parts: Sequence[str], shows: Callable[[str], bool]) -> list[str]:
    """Runs of parts are left out, long ones first, until nothing more can be left out."""
    kept, size = list(parts), max(1, len(parts) // 2)
    while True:
        start, before = 0, len(kept)
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if shorter and shows("".join(shorter)):
                kept = shorter
            else:
                start += size
        if size == 1 and len(kept) == before:
            return kept
        size = max(1, size // 2)
