"""Fixes: what hints of diagnostics tell to write, as edits of the text."""

from __future__ import annotations

import re

from sqlstream.analysis.answers import Edit, Fix, Problem
from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.functions.patterns import WARNING as MISTAKEN_PATTERN

_MEANT = re.compile(r"^Did you mean (.+)\?$")
_QUOTED = re.compile(r'"([^"]+)"')
_LITERAL = re.compile(r"^Write (r?'(?:[^'\\]|\\.|'')*') for ")
_ESCAPE = re.compile(r"(?:^|[.;] )Write (r?'(?:[^'\\]|\\.|'')*')\.?$")


def problem_of(diagnostic: Diagnostic, text: str) -> Problem:
    """The diagnostic with its fixes; a place in the text of a view is none in ``text``."""
    here = diagnostic.source is None or diagnostic.source == text
    span = diagnostic.span if here else None
    return Problem(
        diagnostic.code,
        diagnostic.message,
        span,
        diagnostic.detail,
        diagnostic.hint,
        diagnostic.warning,
        fixes_of(diagnostic, text) if here else (),
    )


def fixes_of(diagnostic: Diagnostic, text: str) -> tuple[Fix, ...]:
    """One fix for each name, or literal, that the hint says to write."""
    if diagnostic.hint is None or diagnostic.span is None:
        return ()
    meant = _MEANT.match(diagnostic.hint)
    if meant is not None:
        names = _QUOTED.findall(meant[1]) or re.split(" or |, ", meant[1])
        return _other_names(diagnostic, diagnostic.span, names, text)
    literal = (_LITERAL if diagnostic.code == MISTAKEN_PATTERN else _ESCAPE).search(diagnostic.hint)
    if literal is not None and text[diagnostic.span.start : diagnostic.span.end].endswith("'"):
        return (Fix(f"Write {literal[1]}", (Edit(diagnostic.span, literal[1]),)),)
    return ()


def _other_names(diagnostic: Diagnostic, span: Span, names: list[str], text: str) -> tuple[Fix, ...]:
    """The name that the message quotes is the last one at the span that is spelled so."""
    written = text[span.start : span.end]
    for wrong in _QUOTED.findall(diagnostic.message):
        key = written.find(f"'{wrong}'")
        if key >= 0:  # of an option or a setting
            at = Span(span.start + key, span.start + key + len(wrong) + 2)
            return tuple(Fix(f"Write '{name}'", (Edit(at, f"'{name}'"),)) for name in names)
        last = wrong.rpartition(".")[2]
        place = [*re.finditer(rf"(?<![\w`'])(`?){re.escape(last)}\1(?![\w`'])", written, re.IGNORECASE)]
        if place:
            start = span.start + place[-1].start()
            return tuple(_renamed(name, Span(start, start + len(place[-1][0])), place[-1][0]) for name in names)
    return ()


def _renamed(name: str, at: Span, written: str) -> Fix:
    spelled = name.upper() if written.isupper() and name.islower() else name
    return Fix(f"Write {spelled}", (Edit(at, spelled if name.isupper() else quote_name(spelled)),))
