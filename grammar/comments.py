"""Comments of a statement put back into its formatted text, beside the words that they stood beside.

A comment on the line of the word before it stays behind that word, others stay above the word that follows.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot.tokens import Token

from sqlstream.grammar.alignment import aligned

_PIECE = re.compile(r"(?P<line>--[^\n\r]*)|(?P<block>/\*|\{#)|(?P<break>[\n\r])|.", re.DOTALL)
_NO_SPACE_BEHIND, _NO_SPACE_BEFORE = "([.", ",;)].("


@dataclass(frozen=True)
class Comment:
    """``text`` is as written. ``gap`` is the index of the word behind it, which is the number of words where there is
    none. ``below``: a line break stands between it and the word before it; ``beside``: none between it and the next
    word; ``spaced``: an empty line follows."""

    text: str
    gap: int
    below: bool
    beside: bool = False
    spaced: bool = False

    @property
    def to_the_end(self) -> bool:
        """Everything behind it on its line belongs to it."""
        return self.text.startswith("--")


def comments_between(text: str, start: int, end: int, gap: int) -> list[Comment]:
    """The comments between two words; anything else there is white space or a superfluous semicolon."""
    spans: list[tuple[str, bool, int, int]] = []
    position, below = start, False
    while position < end:
        piece = _PIECE.match(text, position)
        assert piece is not None
        close = _end_of_block(text, position, end) if piece["block"] else piece.end()
        if piece["block"] or piece["line"]:
            spans.append((text[position:close].rstrip(), below, position, close))
        below = below or piece["break"] is not None
        position = close
    comments: list[Comment] = []
    beside, following = True, end
    for words, under, begin, close in reversed(spans):
        breaks = text.count("\n", close, following)
        beside, following = beside and not breaks, begin
        comments.append(Comment(_no_hint(words), gap, under, beside, breaks > 1))
    return comments[::-1]


def _end_of_block(text: str, start: int, end: int) -> int:
    """Comments nest, those that look like a hint in their like."""
    opening, closing = ("/*", "*/") if text[start] == "/" else ("{#", "#}")
    opening = "/*+" if text.startswith("/*+", start) else opening
    depth, position = 1, start + len(opening)
    while position < end and depth:
        if text.startswith((opening, closing), position):
            depth += 1 if text.startswith(opening, position) else -1
            position += 1
        position += 1
    return position


def _no_hint(comment: str) -> str:
    """A comment that looks like a hint, but stands where none can, would be one behind another word."""
    if not comment.startswith("/*+"):
        return comment
    inside = comment[2:-2].replace("/*", "/ *")
    return f"/* {inside}{' ' if inside.endswith('/') else ''}*/"


def woven(printed: str, words: Sequence[Token], written: Sequence[Token], comments: Sequence[Comment]) -> str:
    """The printed text, which consists of ``words``, with the comments of the ``written`` one."""
    if not comments:
        return printed
    slots = _Slots(printed, words)
    places = _Places(words, written)
    for comment in comments:
        _put(comment, slots, places)
    return slots.joined()


def _put(comment: Comment, slots: _Slots, places: _Places) -> None:
    behind = places.behind(comment.gap)
    following = places.following(comment.gap)
    if (comment.below and following is not None) or behind is None:
        following = following or 0
        if comment.beside and not comment.to_the_end and not slots.begins_line(following):
            slots.inside[following].append(comment)
        else:
            slots.above[slots.line_of(following)].append(comment)
    elif comment.to_the_end:
        slots.put_at_end(slots.end_of_line(behind), comment)
    else:
        slots.inside[behind + 1].append(comment)


class _Places:
    """Where the words of the written text are in the printed one."""

    def __init__(self, words: Sequence[Token], written: Sequence[Token]) -> None:
        written_words, printed_words = ([t.text.upper() for t in tokens] for tokens in (written, words))
        pairs = aligned(written_words, printed_words)
        self._written = [a for a, _ in pairs]
        self._printed = [b for _, b in pairs]
        self._texts = written_words

    def behind(self, gap: int) -> int | None:
        """The printed word that a comment in this gap stands behind."""
        index = bisect_left(self._written, gap) - 1
        return self._printed[index] if index >= 0 else None

    def following(self, gap: int) -> int | None:
        """The printed word that a comment in this gap stands above; a comma belongs to the word before it, and so does
        the end of the statement."""
        while gap < len(self._texts) and self._texts[gap] == ",":
            gap += 1
        index = bisect_right(self._written, gap - 1)
        if index >= len(self._written) or self._texts[self._written[index]] == ";":
            return None
        return self._printed[index]


@dataclass
class _Slots:
    """The gaps before each word of the printed text, and one behind the last, with what comes into them."""

    printed: str
    words: Sequence[Token]
    inside: defaultdict[int, list[Comment]] = field(default_factory=lambda: defaultdict(list))
    at_end: dict[int, Comment] = field(default_factory=dict)
    above: defaultdict[int, list[Comment]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def _lines(self) -> list[int]:
        """The slots that begin a line, in order."""
        return [slot for slot in range(len(self.words)) if slot == 0 or "\n" in self.gap(slot)]

    def gap(self, slot: int) -> str:
        start = self.words[slot - 1].end + 1 if slot else 0
        return self.printed[start : self.words[slot].start if slot < len(self.words) else len(self.printed)]

    def begins_line(self, slot: int) -> bool:
        return slot == 0 or "\n" in self.gap(slot)

    def line_of(self, slot: int) -> int:
        """The slot of the first word on the line."""
        return self._lines[bisect_right(self._lines, slot) - 1]

    def end_of_line(self, word: int) -> int:
        """The slot behind the last word on the line."""
        following = bisect_right(self._lines, word)
        return self._lines[following] if following < len(self._lines) else len(self.words)

    def put_at_end(self, slot: int, comment: Comment) -> None:
        """One comment to the end of a line has room; those before it move above the line."""
        if slot in self.at_end:
            self.above[self.line_of(slot - 1)].append(self.at_end[slot])
        self.at_end[slot] = comment

    def joined(self) -> str:
        lines: Iterator[str] = (
            self._filled(slot) + self.printed[word.start : word.end + 1] for slot, word in enumerate(self.words)
        )
        return "".join(lines) + self._filled(len(self.words))

    def _filled(self, slot: int) -> str:
        gap = self.gap(slot)
        beside = [c.text for c in self.inside[slot]]
        if slot in self.at_end:
            beside.append(self.at_end[slot].text)
        if slot and "\n" not in gap and slot < len(self.words):
            return self._between(slot, beside) if beside else gap
        indent = gap.rpartition("\n")[2]
        lines = [f"{indent}{c.text}{chr(10) * (1 + (c.spaced and slot == 0))}" for c in self.above[slot]]
        if slot == 0:
            return "".join(lines)
        return "".join(f" {text}" for text in beside) + (f"\n{''.join(lines)}{indent}" if "\n" in gap else gap)

    def _between(self, slot: int, beside: list[str]) -> str:
        """Inside a line."""
        gap, before = self.gap(slot), self.printed[self.words[slot - 1].end]
        following = self.printed[self.words[slot].start]
        left = "" if before in _NO_SPACE_BEHIND else " "
        right = "" if not gap and following in _NO_SPACE_BEFORE else " "
        return left + " ".join(beside) + right
