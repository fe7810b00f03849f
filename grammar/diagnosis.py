"""From a failure inside sqlglot's parser to the error that users read.

An unclosed parenthesis and a statement of another system are told before anything else that follows from them.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.functions.elsewhere import instead_of
from sqlstream.grammar.failures import (
    FOREIGN_STATEMENT,
    UNCLOSED,
    UNEXPECTED,
    UNKNOWN_STATEMENT,
    SyntaxFailure,
    token_span,
)
from sqlstream.grammar.language import openings

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
    """The mistake in a statement that did not parse."""
    assert isinstance(error, SyntaxFailure), error
    reported = error.diagnostic
    known = unbalanced(tokens) or _foreign(tokens)
    diagnostic = known or _unknown(tokens, reported) or _in_a_call(tokens, reported) or reported
    return SqlStreamError.of([diagnostic])


def unbalanced(tokens: list[Token]) -> Diagnostic | None:
    """The parenthesis or bracket without its partner, where there is one."""
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
    """An error of the tokenizer at the quote or comment that is never closed."""
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
