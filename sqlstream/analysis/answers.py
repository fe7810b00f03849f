"""What ``Planner`` answers: frozen data of texts, numbers and spans, which ``to_dict`` makes JSON of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any

from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.functions.patterns import WARNING as MISTAKEN_PATTERN
from sqlstream.planner.nodes import Insert, Output, StatementSet


class Answer:
    """Base class of the results that ``Planner`` returns."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as a dictionary that can be written as JSON. Plans are left out."""
        shown = _shown(self)
        assert isinstance(shown, dict)
        return shown


def _shown(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case tuple():
            return [_shown(member) for member in value]
    if is_dataclass(value):
        return {f.name: _shown(getattr(value, f.name)) for f in fields(value) if f.metadata.get("shown", True)}
    return value


@dataclass(frozen=True)
class Edit(Answer):
    """An edit of a text: the characters in ``span`` are replaced by ``text``."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix(Answer):
    """A suggested fix for a problem. Its edits must be applied together."""

    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Problem(Answer):
    """An error in a statement, or with ``warning`` something that is allowed but probably a mistake.

    ``span`` is None where the problem has no position in the text. If it is in the query of a view, ``detail`` names
    the view.
    """

    code: str
    message: str
    span: Span | None = None
    detail: str | None = None
    hint: str | None = None
    warning: bool = False
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True)
class OutputColumn(Answer):
    """A column of a query's result. ``time``: ``event time``, ``processing time`` or ``ingestion time`` if it is a
    time attribute, else None.

    ``expression``: how the column is computed. ``sources``: the table columns in it, as ``table.column``.
    """

    name: str
    type: str
    nullable: bool
    time: str | None = None
    expression: str = ""
    sources: tuple[str, ...] = ()


class Role(Enum):
    """How a statement uses a table: reads it, looks rows up in it, writes it, writes side outputs to it, reads it as a
    view, or defines it.
    """

    READ = "read"
    LOOKED_UP = "looked up"
    WRITTEN = "written"
    SIDE_OUTPUT = "side output"
    VIEW = "view"
    DEFINED = "defined"


@dataclass(frozen=True)
class TableUse(Answer):
    """A table or view that a statement uses. ``columns``: those that it reads. ``spans``: where the text names the
    table.
    """

    name: str
    role: Role
    columns: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class FunctionUse(Answer):
    """A function that a statement calls. ``kind``: ``scalar``, ``aggregate`` and so on. ``own``: it is defined in the
    catalog, not built in.
    """

    name: str
    kind: str
    own: bool
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class StateNeed(Answer):
    """State that an operator stores. ``what``: its rows or values. ``until``: when they are removed; None if never, so
    that only the number of keys or rows limits the state.
    """

    operator: str
    what: str
    until: str | None


@dataclass(frozen=True)
class Parameter(Answer):
    """A parameter of a text. The name of ``?`` is its number, from 1; the name of ``:day`` is ``day``. ``type`` is
    None where the context does not determine it.
    """

    name: str
    type: str | None
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class StatementAnalysis(Answer):
    """The analysis of one statement, which is not executed.

    ``kind``: its first words (``SELECT``, ``INSERT INTO``, ``CREATE TABLE``). The following fields are empty except
    for queries and INSERTs. ``changelog``: the row kinds of the result (``I,UB,UA,D``). ``keys``: sets of columns that
    are unique among the current rows. ``runs_as``: ``stream`` or ``batch``; the columns of some batches are unknown
    without Spark. ``fingerprint``: equal for queries with the same optimized plan.
    """

    kind: str
    span: Span
    problems: tuple[Problem, ...] = ()
    columns: tuple[OutputColumn, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    changelog: str | None = None
    bounded: bool | None = None
    runs_as: str | None = None
    tables: tuple[TableUse, ...] = ()
    functions: tuple[FunctionUse, ...] = ()
    state: tuple[StateNeed, ...] = ()
    fingerprint: str | None = None
    plan: Output | Insert | StatementSet | None = field(default=None, repr=False, metadata={"shown": False})

    @property
    def ok(self) -> bool:
        """True where the statement has no errors. It may have warnings."""
        return all(problem.warning for problem in self.problems)

    @property
    def time(self) -> tuple[OutputColumn, ...]:
        """The columns of the result that are time attributes."""
        return tuple(column for column in self.columns if column.time is not None)


@dataclass(frozen=True)
class Analysis(Answer):
    """The analysis of a text: its statements in order, and its parameters."""

    text: str
    statements: tuple[StatementAnalysis, ...]
    parameters: tuple[Parameter, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of all statements, in text order."""
        return tuple(problem for statement in self.statements for problem in statement.problems)

    @property
    def ok(self) -> bool:
        """True where no statement has errors. There may be warnings."""
        return all(statement.ok for statement in self.statements)

    def __iter__(self) -> Iterator[StatementAnalysis]:
        return iter(self.statements)


@dataclass(frozen=True)
class Hover(Answer):
    """What an editor shows for the name at ``span``. ``text`` is Markdown."""

    span: Span
    text: str


@dataclass(frozen=True)
class Pushed(Answer):
    """A query with conditions added, and where they are evaluated.

    ``sources``: pairs of a table and a condition that its source evaluates. ``above``: conditions that operators
    evaluate.
    """

    text: str
    sources: tuple[tuple[str, str], ...]
    above: tuple[str, ...]


@dataclass(frozen=True)
class Transpiled(Answer):
    """A text translated into another dialect. ``notes``: settings of the other system that the translation relies
    on.
    """

    text: str
    notes: tuple[str, ...] = ()


# --- fixes: hints of diagnostics as edits of the text ---------------------------------------------------------


_MEANT = re.compile(r"^Did you mean (.+)\?$")
_QUOTED = re.compile(r'"([^"]+)"')
_LITERAL = re.compile(r"^Write (r?'(?:[^'\\]|\\.|'')*') for ")
_ESCAPE = re.compile(r"(?:^|[.;] )Write (r?'(?:[^'\\]|\\.|'')*')\.?$")


def problem_of(diagnostic: Diagnostic, text: str) -> Problem:
    """Converts a diagnostic into a problem with fixes. Its span is None if it refers to the text of a view instead of
    ``text``.
    """
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
    """Returns a fix for each name or literal that the diagnostic's hint suggests."""
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
