"""Trees back to text: ``to_sql`` on one line, ``format_script`` with a clause a line and each comment in its place."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import product

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.grammar import nodes as n
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.parser import SqlStreamParser
from sqlstream.grammar.script import (
    parse_script,
    parse_script_recovering,
    parse_tokens,
    quoted_settings,
    split,
    tokenize,
)

# --- ``${name}`` in scripts that are formatted and not run: words of the same length stand in for them -----------
# A name stands in first. Where the language wants a number or a string instead, the statement does not parse, and those
# are tried for the placeholders up to the mistake.


_PLACEHOLDER = re.compile(r"(?<!\$)\$\{(\w+)\}")  # what follows another $ is a text between $$
_KINDS = ("name", "number", "string")

StandIns = Mapping[str, str]
"""By the name of a placeholder the word for it."""


def with_stand_ins(text: str, mistakes: Callable[[str], list[Diagnostic]], run: Callable[[str], str]) -> str:
    """Lets ``run`` process a script with ``${name}`` placeholders: replaces them by names, numbers or strings, so that
    the script parses, calls ``run`` with it, and puts the placeholders back into the result. ``mistakes`` returns the
    syntax errors of a text.
    """
    names = list(dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(text)))
    if not names:
        return run(text)
    words = _chosen(text, names, mistakes)
    try:
        result = run(_replaced(text, words))
    except SqlStreamError as error:
        raise _as_written(error, text, words) from None
    return _put_back(result, words)


def _chosen(text: str, names: list[str], mistakes: Callable[[str], list[Diagnostic]]) -> StandIns:
    """Kinds of words with which the text parses, or parses furthest."""
    words: dict[str, str] = {}
    for name in names:
        words[name] = _stand_in("name", name, text, words)

    def reached(tried: StandIns) -> int:
        starts = [d.span.start if d.span else 0 for d in mistakes(_replaced(text, tried))]
        return min(starts, default=len(text) + 1)

    best = reached(words)
    while best <= len(text):
        others = ({**words, name: _stand_in(kind, name, text, words)} for name, kind in _before(best, text))
        better = next(((tried, r) for tried in others if (r := reached(tried)) > best), None)
        if better is None:
            break
        words, best = better
    return words


def _before(position: int, text: str) -> Iterator[tuple[str, str]]:
    """The placeholders up to the position, the nearest first, with each kind."""
    near = [match[1] for match in _PLACEHOLDER.finditer(text) if match.start() <= position]
    return ((name, kind) for name in dict.fromkeys(reversed(near)) for kind in _KINDS)


def _stand_in(kind: str, name: str, text: str, stand_ins: StandIns) -> str:
    """A word as long as ``${name}`` that neither the text nor another word contains."""
    first, letters = ("9", "0123456789") if kind == "number" else ("_", "abcdefghijklmnopqrstuvwxyz")
    quote = "'" if kind == "string" else ""
    room = len(name) + len("${}") - 2 * len(quote)
    varied = min(room - 1, 4)
    words = (first * (room - varied) + "".join(end) for end in product(letters, repeat=varied))
    present, others = " ".join([text, *stand_ins.values()]).lower(), [other.strip("'") for other in stand_ins.values()]
    free = (word for word in words if word not in present and not any(other in word for other in others))
    return quote + next(free) + quote


def _replaced(text: str, words: StandIns) -> str:
    return _PLACEHOLDER.sub(lambda match: words[match[1]], text)


def _put_back(text: str, words: StandIns) -> str:
    for name, word in words.items():
        text = text.replace(word, f"${{{name}}}")
    return text


def _as_written(error: SqlStreamError, text: str, words: StandIns) -> SqlStreamError:
    return SqlStreamError.of(replace(d, message=_put_back(d.message, words), source=text) for d in error.diagnostics)


# --- which words of a text are which words of the same text written otherwise ------------------------------------


_WINDOW = 200


def aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Finds the words that two texts share, in order. Returns pairs of indices of equal words; both indices ascend.

    ``difflib`` takes quadratic time, so it compares only a window of words at a time, which moves on after equal words.
    """
    if max(len(one), len(two)) <= _WINDOW:
        return _matched(one, two)
    pairs: list[tuple[int, int]] = []
    a = b = 0
    while a < len(one) and b < len(two):
        if one[a] == two[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
            continue
        matched = [(a + i, b + j) for i, j in _matched(one[a : a + _WINDOW], two[b : b + _WINDOW])]
        rest = max(len(one) - a, len(two) - b) <= _WINDOW
        # What lies after the window may fit better to what is in its second half.
        near = matched if rest else [(i, j) for i, j in matched if max(i - a, j - b) < _WINDOW // 2]
        pairs += near
        if rest:
            break
        a, b = (near[-1][0] + 1, near[-1][1] + 1) if near else (a + _WINDOW // 2, b + _WINDOW // 2)
    return pairs


def _matched(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    blocks = SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks()
    return [(a + i, b + i) for a, b, size in blocks for i in range(size)]


# --- comments of a statement put back into its formatted text, beside the words that they stood beside -----------
# A comment on the line of the word before it stays behind that word, others stay above the word that follows.


_PIECE = re.compile(r"(?P<line>--[^\n\r]*)|(?P<block>/\*|\{#)|(?P<break>[\n\r])|.", re.DOTALL)
_NO_SPACE_BEHIND, _NO_SPACE_BEFORE = "([.", ",;)].("


@dataclass(frozen=True)
class Comment:
    """A comment of a script. ``text`` is as written.

    ``gap`` is the index of the word after it, or the number of words at the end. ``below``: a line break separates it
    from the previous word. ``beside``: no line break separates it from the next word. ``spaced``: an empty line
    follows.
    """

    text: str
    gap: int
    below: bool
    beside: bool = False
    spaced: bool = False

    @property
    def to_the_end(self) -> bool:
        """True for a comment that extends to the end of its line."""
        return self.text.startswith("--")


def comments_between(text: str, start: int, end: int, gap: int) -> list[Comment]:
    """Finds the comments between two words of a script: in ``text`` from position ``start``, the end of one word, to
    ``end``, the beginning of the next. ``gap`` is the index of the next word.
    """
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
    """A comment that looks like a hint, but stands where none can, would be one after another word."""
    if not comment.startswith("/*+"):
        return comment
    inside = comment[2:-2].replace("/*", "/ *")
    return f"/* {inside}{' ' if inside.endswith('/') else ''}*/"


def woven(printed: str, words: Sequence[Token], written: Sequence[Token], comments: Sequence[Comment]) -> str:
    """Inserts comments into formatted text. ``printed`` is that text and ``words`` its tokens; ``written`` are the
    tokens of the original text, next to which the ``comments`` stood.
    """
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
        """The printed word that a comment in this gap stands after."""
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
    """The gaps before each word of the printed text, and one after the last, with what comes into them."""

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
        """The slot after the last word on the line."""
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


NOT_PRINTED = "SS108"
_REPORT = "Leave the statement as it is, and report it as a defect of sqlstream."
_REPORT_SCRIPT = "Leave the script as it is, and report it as a defect of sqlstream."


@on_deep_stack
def to_sql(node: n.Node | exp.Expression) -> str:
    """A statement, clause, query or expression in canonical form on one line; parsing it gives an equal tree."""
    return node.text(_plain) if isinstance(node, n.Node) else _plain(node)


def pretty(statement: n.Node) -> str:
    """The statement laid out on several lines, without its comments. A statement without a query stays on one line."""
    return statement.pretty(_plain, _sql)


@on_deep_stack
def format_script(text: str) -> str:
    """The script with each clause on a line; formatting it again changes nothing.

    Comments remain next to the same words. ``${name}`` may stand for a name, a number or a string.

    :raises ParseError: where a statement does not parse; SS108 where the layout would change the meaning, or lose a
    comment.
    """
    return with_stand_ins(text, _mistakes, _formatted)


def _mistakes(text: str) -> list[Diagnostic]:
    return [d for error in parse_script_recovering(text)[1] for d in error.diagnostics]


def _formatted(text: str) -> str:
    pieces = list(_pieces(text))
    statements = [parse_tokens(text, piece.tokens, _read) for piece in pieces]
    parts, above = list[str](), comments_between(text, 0, pieces[0].start if pieces else len(text), 0)
    ends = [*(piece.start for piece in pieces[1:]), len(text)]
    for piece, statement, end in zip(pieces, statements, ends, strict=False):
        behind = comments_between(text, piece.end, end, 0)
        same_line = [replace(c, gap=len(piece.words)) for c in behind if not c.below]
        parts.append(_statement(text, statement, piece, [*above, *piece.comments(text), *same_line]))
        above = [c for c in behind if c.below]
    if above:
        parts.append("".join(f"{c.text}\n" + "\n" * c.spaced for c in above).rstrip())
    layout = "\n\n".join(parts) + "\n"
    _require_same(text, tuple(statements), layout)
    return layout


def _require_same(text: str, statements: tuple[n.Statement, ...], layout: str) -> None:
    """SS108 unless the layout has the same statements and the same comments."""
    try:
        kept = parse_script(layout) == statements and _comments(layout) == _comments(text)
    except SqlStreamError:
        kept = False
    if not kept:
        raise ParseError(NOT_PRINTED, "this script cannot be formatted", hint=_REPORT_SCRIPT)


def _comments(text: str) -> Counter[str]:
    """Each comment of a script, and how often it stands there; in which order, the layout decides."""
    tokens = tokenize(text)
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(text)]
    gaps = zip(ends, starts, strict=True)
    return Counter(comment.text for start, end in gaps for comment in comments_between(text, start, end, 0))


@dataclass(frozen=True)
class _Piece:
    """The tokens of a statement; ``words`` are these and the semicolon after them."""

    tokens: list[Token]
    words: list[Token]

    @property
    def start(self) -> int:
        return self.words[0].start

    @property
    def end(self) -> int:
        return self.words[-1].end + 1

    def comments(self, text: str) -> list[Comment]:
        """Those between the words."""
        gaps = enumerate(zip(self.words, self.words[1:], strict=False), 1)
        return [c for gap, (word, after) in gaps for c in comments_between(text, word.end + 1, after.start, gap)]


def _pieces(text: str) -> Iterator[_Piece]:
    tokens = tokenize(text)
    following = dict(zip((t.start for t in tokens), tokens[1:], strict=False))
    for statement in split(tokens):
        closing = following.get(statement[-1].start)
        ends = closing is not None and closing.token_type == TokenType.SEMICOLON
        words = quoted_settings(text, statement)
        yield _Piece(words, [*words, closing] if ends and closing else words)


def _statement(text: str, statement: n.Statement, piece: _Piece, comments: list[Comment]) -> str:
    printed = pretty(statement)
    words = tokenize(printed)
    try:
        same = parse_tokens(printed, words, _read) == statement
    except SqlStreamError:
        same = False
    if not same:
        span = Span(piece.start, piece.end)
        raise ParseError(NOT_PRINTED, "this statement cannot be formatted", span, hint=_REPORT).with_source(text)
    return woven(f"{printed};", tokenize(f"{printed};"), piece.words, comments)


def _read(parser: SqlStreamParser) -> n.Statement:
    statement: n.Statement = parser.syntax("statement")
    return statement


def _sql(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, pretty=True, comments=False, normalize_functions=False, max_text_width=100)


def _plain(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, comments=False, normalize_functions=False)
