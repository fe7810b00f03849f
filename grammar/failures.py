"""Syntax errors with place, expectation and hint; raised inside sqlglot's parser as its own ``ParseError``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.functions.elsewhere import instead_of
from sqlstream.grammar.depth import NESTING, TOO_DEEP, USE_VIEWS
from sqlstream.grammar.language import END, keywords, openings, readable

# --- what to write for lengths of time that are no intervals: ``5 minutes``, ``'5 minutes'`` ---------------------


EXAMPLE = "INTERVAL '5' SECOND"

_UNITS = ("MILLISECOND", "MICROSECOND", "NANOSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_SPELLED = {unit: unit for unit in _UNITS} | {
    "MS": "MILLISECOND", "US": "MICROSECOND", "NS": "NANOSECOND", "S": "SECOND", "SEC": "SECOND", "M": "MINUTE",
    "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY", "W": "WEEK",
}  # fmt: skip
_LENGTH = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def unit_of(word: str) -> str | None:
    """The unit of time for a word: ``minutes`` and ``min`` are MINUTE; None for other words."""
    spellings = (word.upper(), word.upper().removesuffix("S"))
    return next((_SPELLED[spelling] for spelling in spellings if spelling in _SPELLED), None)


def interval_text(number: str, unit: str) -> str:
    """The text of an interval: ``INTERVAL '5' MINUTE``."""
    return f"INTERVAL '{number}' {unit}"


def interval_meant(text: str) -> str | None:
    """Corrects a text that was probably meant as an interval: for ``5 minutes`` it returns ``INTERVAL '5' MINUTE``;
    None for other texts.
    """
    match = _LENGTH.fullmatch(text)
    unit = unit_of(match[2]) if match else None
    return interval_text(match[1], unit) if match and unit else None


UNEXPECTED, UNCLOSED, UNKNOWN_STATEMENT, ORDER, LITERAL = "SS101", "SS102", "SS103", "SS104", "SS105"
FOREIGN_STATEMENT = "SS106"
_SHOWN = 8


class SyntaxFailure(SqlglotParseError):
    """An exception that carries a ``Diagnostic`` through sqlglot. It is not one of sqlglot's own errors, which
    backtracking catches.
    """

    def __init__(self, diagnostic: Diagnostic, terminals: Iterable[str] = ()) -> None:
        super().__init__(diagnostic.message, [{}])  # sqlglot adds to the first of its errors
        self.diagnostic = diagnostic
        self.terminals = tuple(terminals)


def failure(message: str, span: Span, code: str = UNEXPECTED, hint: str | None = None) -> SyntaxFailure:
    """Returns a syntax error, for code inside sqlglot's parser to raise."""
    return SyntaxFailure(Diagnostic(code, message, span, hint=hint))


def token_span(token: Token) -> Span:
    """The span of a token in the text."""
    return Span(token.start, token.end + 1)


def unexpected(token: Token | None, previous: Token | None, terminals: Iterable[str]) -> SyntaxFailure:
    """Returns the syntax error for ``token`` (None: the end of the statement), which is none of the allowed
    ``terminals``. ``previous`` is the token before it.
    """
    wanted = tuple(terminals)
    hint = expectation(wanted)
    if meant := bare_interval(previous, token):
        return meant
    if token is not None:
        hint = _REFUSED.get(_first_word(token), hint)
        return failure(f'unexpected "{token.text}"', token_span(token), hint=hint)
    end = previous.end + 1 if previous else 0
    span = Span(max(0, end - 1), end)
    return SyntaxFailure(Diagnostic(UNEXPECTED, "unexpected end of the statement", span, hint=hint), wanted)


def too_deep(tokens: list[Token]) -> SyntaxFailure:
    """Returns the error SS107 for a statement with more levels of parentheses than the stack allows."""
    return failure(TOO_DEEP, token_span(tokens[0]), NESTING, USE_VIEWS)


_REFUSED = dict.fromkeys("@$", "Parameters are written ? or :name.")
_CLAUSE_WORDS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "SELECT", "VALUES")


def leftover(tokens: list[Token], index: int, terminals: Iterable[str] = ()) -> SyntaxFailure:
    """Returns the syntax error for a statement that was parsed up to ``tokens[index]``, which continues no clause.
    ``terminals`` would have been valid there.

    The cause may be the word before it: a misspelt keyword, or one that began a clause.
    """
    token = tokens[index]
    if meant := bare_interval(tokens[index - 1] if index else None, token):
        return meant
    word, before = token.text.upper(), tokens[index - 1].text.upper() if index else ""
    specific = _REFUSED.get(_first_word(token)) or expectation(terminals) or _begun(before)
    hint = specific or misspelt(before) or misspelt(word)
    return failure(f'unexpected "{token.text}"', token_span(token), hint=hint)


def bare_interval(number: Token | None, unit: Token | None) -> SyntaxFailure | None:
    """Returns the error for two tokens such as ``5`` and ``minutes``: an interval without INTERVAL and quotes. None for
    other tokens.
    """
    if number is None or unit is None or number.token_type != TokenType.NUMBER:
        return None
    meant = unit_of(unit.text)
    if meant is None:
        return None
    hint = f"Write {interval_text(number.text, meant)}."
    return failure(f'"{number.text} {unit.text}" is not an interval', Span(number.start, unit.end + 1), LITERAL, hint)


def _first_word(token: Token) -> str:
    return token.text.upper().partition(" ")[0]


def _begun(word: str) -> str | None:
    terminal = keywords().get(word, "")
    for start in ("stream_clause", "table_clause"):
        if terminal in openings(start):
            return expectation(openings(start)[terminal], f"Expected behind {word}")
    return None


def misspelt(word: str) -> str | None:
    """The hint ``Did you mean …`` for an upper-case word that is similar to the keyword of a clause; None for other
    words.
    """
    close = difflib.get_close_matches(word, _CLAUSE_WORDS, 1, 0.7)
    return f"Did you mean {close[0]} instead of {word}?" if close and close[0] != word else None


def expectation(terminals: Iterable[str], lead: str = "Expected") -> str | None:
    """Returns a hint that lists the terminals which would have been valid, such as ``Expected "A", "B" or a name.``;
    None without terminals. ``lead`` is the first word.
    """
    words = sorted({readable(t) for t in terminals if t != END}, key=_keywords_first)
    if not words:
        return None
    if len(words) > _SHOWN:
        return f"{lead} {', '.join(words[:_SHOWN])} or one of {len(words) - _SHOWN} more."
    return f"{lead} {', '.join(words[:-1])} or {words[-1]}." if len(words) > 1 else f"{lead} {words[0]}."


def _keywords_first(word: str) -> tuple[int, str]:
    """Keywords, then names and the like, then punctuation."""
    return (0 if word[1:2].isalpha() and word[0] == '"' else 1 if word[0] != '"' else 2), word


_REQUIRED = re.compile(r"Required keyword: '\w+' missing for")
_EXPECTING = re.compile(r"Expect(?:ing|ed):? (.+)")


def missing(message: str, token: Token | None, previous: Token | None) -> SyntaxFailure:
    """Translates an error of sqlglot, which expected something and did not find it; ``message`` is its text. Returns
    the syntax error at ``token``, where it stopped (None: the end of the text), or at ``previous``, the token before.
    """
    if _REQUIRED.match(message):
        return unexpected(token, previous, ["CONDITION"])
    failure = unexpected(token, previous, [])
    wanted = _EXPECTING.match(message)
    if wanted and wanted[1].startswith("table name"):
        return unexpected(token, previous, ["TABLE_NAME"])
    hint = f"Expected {_quoted(wanted[1])}." if wanted else f"{message.rstrip('.')}."
    return SyntaxFailure(replace(failure.diagnostic, hint=hint), failure.terminals)


def _quoted(wanted: str) -> str:
    return f'"{wanted}"' if len(wanted) == 1 else wanted


# --- from a failure inside sqlglot's parser to the error that users read --------------------------------------
# An unclosed parenthesis and a statement of another system are reported before anything else that follows from them.


_NO_JAVA = (
    "Connectors and functions are Python here: functions may lie in a module beside the script (CREATE FUNCTION)."
)
_NO_MODULES = "All functions of Spark and of the dialect are there always; SHOW FUNCTIONS lists them."
_FOREIGN = {
    "ADD JAR": f"{_NO_JAVA} What Spark itself needs, SET 'spark.jars' adds before it starts.",
    "ANALYZE": "There are no statistics to gather: plans of streams do not depend on them.",
    "BEGIN": "Write EXECUTE STATEMENT SET BEGIN … END to run several INSERT statements as one job.",
    "CALL": "There are no procedures; SAVEPOINT JOB, CHECKPOINT JOB and the like are statements.",
    "COMMIT": "Each INSERT commits by itself, epoch by epoch.",
    "DELETE": "Streams are changed by their sources; write INSERT INTO with the rows that remain.",
    "GRANT": None,
    "LIST JAR": _NO_JAVA,
    "LOAD": _NO_MODULES,
    "MERGE": "Write INSERT INTO a table with a PRIMARY KEY, which updates rows with equal keys.",
    "MSCK": "Folders of partitions are looked for whenever a table is read.",
    "REMOVE JAR": _NO_JAVA,
    "REPAIR": "Folders of partitions are looked for whenever a table is read.",
    "REVOKE": None,
    "ROLLBACK": "Each INSERT commits by itself, epoch by epoch; a job may go on from a savepoint.",
    "UNLOAD": _NO_MODULES,
    "UPDATE": "Write INSERT INTO a table with a PRIMARY KEY, which updates rows with equal keys.",
    "UPSERT": "Write INSERT INTO a table with a PRIMARY KEY.",
}
"""What begins statements of other systems, one word or two, and what to do instead."""
_TABLE_FUNCTIONS = {
    "ML_PREDICT": "There are no models; a Python function may ask one: LATERAL TABLE(f(t.a)) LOOKUP ASYNC (…).",
    "SNAPSHOT": "Write JOIN t FOR SYSTEM_TIME AS OF o.pt AS r ON …, where pt AS PROCTIME() is a column of o.",
    "VECTOR_SEARCH": "There are no vectors; a Python function may ask a database that has some.",
}
"""Functions of Flink in FROM, and what to write instead."""
_PAIRS = {TokenType.R_PAREN: TokenType.L_PAREN, TokenType.R_BRACKET: TokenType.L_BRACKET}
_OPENED = {"'": "string", '"': "string", "`": "quoted name", "/*": "comment"}


def diagnose(tokens: list[Token], error: SqlglotParseError) -> SqlStreamError:
    """Finds the mistake in a statement that did not parse. Returns the error to report."""
    assert isinstance(error, SyntaxFailure), error
    reported = error.diagnostic
    known = unbalanced(tokens) or _foreign(tokens)
    diagnostic = known or _unknown(tokens, reported) or _in_a_call(tokens, reported) or reported
    return SqlStreamError.of([diagnostic])


def unbalanced(tokens: list[Token]) -> Diagnostic | None:
    """The error for a parenthesis or bracket without its partner; None if all are balanced."""
    stack: list[Token] = []
    for token in tokens:
        if token.token_type in _PAIRS.values():
            stack.append(token)
        elif token.token_type in _PAIRS:
            if not stack or stack[-1].token_type != _PAIRS[token.token_type]:
                hint = f'There is no "{"(" if token.text == ")" else "["}" that it closes.'
                return Diagnostic(UNCLOSED, f'"{token.text}" closes nothing', token_span(token), hint=hint)
            stack.pop()
    if not stack:
        return None
    missing = ")" if stack[-1].text == "(" else "]"
    return Diagnostic(UNCLOSED, f'"{stack[-1].text}" is never closed', token_span(stack[-1]), hint=f'Add "{missing}".')


def _foreign(tokens: list[Token]) -> Diagnostic | None:
    words = " ".join(t.text.upper() for t in tokens[:2]).split()[:2]
    begun = next((text for text in (" ".join(words), *words[:1]) if text in _FOREIGN), None)
    if begun is None:
        return None
    message = f"{begun} is not a statement of the dialect"
    return Diagnostic(FOREIGN_STATEMENT, message, token_span(tokens[0]), hint=_FOREIGN[begun])


def _unknown(tokens: list[Token], reported: Diagnostic) -> Diagnostic | None:
    """The statement's first word is none that opens a statement."""
    if reported.code != UNEXPECTED or reported.span is None or not tokens or reported.span.start != tokens[0].start:
        return None
    words = sorted(set(openings("statement")) | {"SELECT", "WITH", "VALUES"})
    close = difflib.get_close_matches(tokens[0].text.upper(), words, 1)
    hint = f"Did you mean {close[0]}?" if close else f"A statement begins with {', '.join(words[:-1])} or {words[-1]}."
    return Diagnostic(UNKNOWN_STATEMENT, f'unknown statement "{tokens[0].text}"', token_span(tokens[0]), hint=hint)


def _in_a_call(tokens: list[Token], diagnostic: Diagnostic) -> Diagnostic | None:
    """The syntax of another system's function, such as ``JSON_OBJECT(KEY k VALUE v)``."""
    if diagnostic.code != UNEXPECTED or diagnostic.span is None:
        return None
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.start >= diagnostic.span.start:
            break
        if token.token_type == TokenType.L_PAREN:
            opened.append(index)
        elif token.token_type == TokenType.R_PAREN and opened:
            opened.pop()
    name = tokens[opened[-1] - 1].text if opened and opened[-1] else ""
    instead = _TABLE_FUNCTIONS.get(name.upper()) or instead_of(name)
    return replace(diagnostic, hint=instead) if instead else None


def token_error(text: str, error: TokenError) -> SqlStreamError:
    """Returns the error for a quote or comment that is not closed, from sqlglot's tokenizer error."""
    start, opening = _unfinished(text)
    if opening is None:
        message = re.split(r"[\n.]", str(error))[0]
        return SqlStreamError.of([Diagnostic(UNEXPECTED, message[0].lower() + message[1:], Span(0, len(text)))])
    what = _OPENED[opening]
    span = Span(start, start + len(opening))
    return SqlStreamError.of([Diagnostic(UNCLOSED, f"this {what} is never closed", span)])


_LEXEMES = re.compile(
    r"""(?P<skip>--[^\n]*|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*(?:[^*]|\*(?!/))*\*/)"""
    r"""|(?P<open>'|"|`|/\*)""",
    re.DOTALL,
)


def _unfinished(text: str) -> tuple[int, str | None]:
    for match in _LEXEMES.finditer(text):
        if match["open"]:
            return match.start(), match["open"]
    return 0, None
