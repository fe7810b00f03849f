"""What stands at a place of a text: hovers, definitions and all places of a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.analysis.answers import Hover
from sqlstream.errors import Span
from sqlstream.functions.catalogue import CLAUSE_FUNCTIONS, kind_of
from sqlstream.grammar import nodes, parse_each, span_of, to_sql
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.script import Piece, pieces
from sqlstream.grammar.trees import walk
from sqlstream.planner.catalog import Column, Function, Table, View
from sqlstream.planner.completion import Scope
from sqlstream.planner.intervals import as_interval
from sqlstream.workspace import Workspace


@on_deep_stack
def hovered(text: str, at: int, workspace: Workspace) -> Hover | None:
    """Returns what an editor shows for the name at offset ``at``: a column, table, view or function. None where there
    is nothing to show.

    The text may be incomplete.
    """
    word = _word_at(text, at)
    if word is None:
        return None
    told = next(_told(text, word, workspace), None)
    return None if told is None else Hover(Span(word.piece.start, word.piece.end), told)


@dataclass(frozen=True)
class _Word:
    """A name in its statement: ``words`` are those of the statement, ``index`` that of the name among them."""

    piece: Piece
    words: tuple[Piece, ...]
    index: int

    @property
    def name(self) -> str:
        return self.piece.text.strip("`")

    @property
    def qualifier(self) -> str | None:
        before = self.words[max(0, self.index - 2) : self.index]
        return before[0].text.strip("`") if len(before) == 2 and before[1].text == "." else None

    @property
    def dotted(self) -> str:
        """The name with those before it that it hangs on."""
        parts, i = [self.name], self.index
        while i >= 2 and self.words[i - 1].text == ".":
            parts.insert(0, self.words[i - 2].text.strip("`"))
            i -= 2
        return ".".join(parts)

    @property
    def is_call(self) -> bool:
        behind = self.words[self.index + 1 : self.index + 2]
        return bool(behind) and behind[0].text == "("


def _word_at(text: str, at: int) -> _Word | None:
    statement: list[Piece] = []
    ended = False
    for piece in pieces(text):
        if piece.text == ";":
            if ended:
                break
            statement = []
        elif not piece.is_blank:
            statement.append(piece)
        ended = ended or piece.start <= at < piece.end
    index = next(
        (i for i, p in enumerate(statement) if p.start <= at <= p.end and (p.is_word or p.text[0] == "`")), None
    )
    return None if index is None else _Word(statement[index], tuple(statement), index)


def _told(text: str, word: _Word, workspace: Workspace) -> Iterator[str]:
    catalog = workspace.catalog
    scope = Scope.around(text, word.words, word.index, catalog)
    if word.is_call:
        yield from _function(word.name, catalog.function(word.name))
    if word.qualifier is not None:
        yield from _columns(word.name, word.qualifier, scope, workspace)
    relation = catalog.relation(word.dotted)
    if relation is not None:
        yield _relation(relation)
    for alias in scope.sources:
        yield from _columns(word.name, alias, scope, workspace)
    aliased = next((scope.sources[a] for a in scope.sources if a.casefold() == word.name.casefold()), None)
    named = catalog.relation(aliased) if aliased is not None else None
    if named is not None:
        yield _relation(named)
    if word.name in scope.ctes:
        yield f"`{word.name}` is a query of WITH"


def _columns(name: str, alias: str, scope: Scope, workspace: Workspace) -> Iterator[str]:
    for text, _, kind in scope.columns_of(alias):
        if text.strip("`").casefold() == name.casefold():
            source = scope.sources.get(alias) or alias
            relation = None if source in scope.ctes else workspace.catalog.relation(source)
            columns = relation.columns if isinstance(relation, Table) else ()
            column = next((c for c in columns if c.name.casefold() == name.casefold()), None)
            more = _more(column) if column is not None else ""
            yield f"`{name} {kind}`{more}\n\ncolumn of `{source}`"


def _more(column: Column) -> str:
    told = ["NOT NULL"] if not column.nullable else []
    told += [column.time.value] if column.time is not None else []
    told += [f"`{to_sql(column.expression)}`"] if column.expression is not None else []
    told += [column.comment] if column.comment else []
    return f" {', '.join(told)}" if told else ""


def _relation(relation: Table | View) -> str:
    if isinstance(relation, View):
        return f"view `{relation.name}`\n\n```sql\n{to_sql(relation.query)}\n```"
    lines = [f"table `{relation.name}` of connector `{relation.connector}`"]
    lines += [relation.comment] if relation.comment else []
    lines.append("\n".join(f"- `{c.name} {c.type}`{_more(c)}" for c in relation.columns))
    if relation.watermark is not None:
        lines.append(f"watermark: `{relation.watermark.column}` - {as_interval(relation.watermark.delay_ms)}")
    if relation.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(relation.primary_key)})")
    return "\n\n".join(lines)


def _function(name: str, function: Function | None) -> Iterator[str]:
    if function is not None:
        arguments = ", ".join(f"{parameter} {kind}" for parameter, kind in function.parameters)
        yield f"`{function.name}({arguments}) {function.returns}`\n\n{function.kind.value} function of the catalog"
    kind = kind_of(name)
    if kind is not None:
        yield f"`{name.upper()}`\n\nbuilt-in {kind.value} function"
    own = CLAUSE_FUNCTIONS.get(name.lower())
    if own is not None:
        yield f"`{name.upper()}`\n\n{own.kind.text}"


# --- definitions and all places -------------------------------------------------------------------------------


@on_deep_stack
def places_of(text: str, at: int) -> tuple[Span, ...]:
    """Returns the spans of all occurrences of the view, table or WITH query named at offset ``at``, its definition
    first.

    Empty if it is not defined in the text. Column qualifiers are not included, because they are aliases.
    """
    names = _names(text)
    here = next((name for name in names if name.span.start <= at <= name.span.end), None)
    if here is None:
        return ()
    same = [name for name in names if name.key == here.key]
    hiding = {name.inside for name in same if name.of_with}
    if here.inside in hiding:
        meant = [name for name in same if name.inside == here.inside]
    else:
        meant = [name for name in same if name.inside not in hiding]
    own = next((name for name in meant if name.defines), None)
    return () if own is None else (own.span, *(name.span for name in meant if name is not own))


@dataclass(frozen=True)
class _Name:
    """A name in statement number ``inside``; ``of_with``: a query of WITH is called so there, and hides all others."""

    key: str
    span: Span
    inside: int
    defines: bool = False
    of_with: bool = False


def _names(text: str) -> list[_Name]:
    written = enumerate(parse_each(text))
    return [name for number, one in written if one.statement is not None for name in _names_in(one.statement, number)]


def _subjects(statement: nodes.Statement) -> Iterator[nodes.Name]:
    """The tables and views that statements name outside of queries, but for those that they define."""
    match statement:
        case nodes.Explain():
            yield from _subjects(statement.statement)
        case nodes.StatementSet():
            yield from (insert.target for insert in statement.inserts)
        case nodes.Insert():
            yield statement.target
        case nodes.Drop() | nodes.Describe() if statement.kind.endswith(_RELATIONS):
            yield statement.name
        case nodes.Show(name=nodes.Name() as name) if statement.what.startswith("CREATE ") and statement.what.endswith(
            _RELATIONS
        ):
            yield name
        case nodes.Truncate() | nodes.AlterTable() | nodes.AlterView() | nodes.AlterMaterializedView():
            yield statement.name


_RELATIONS = ("TABLE", "VIEW")


def _names_in(statement: nodes.Statement, number: int) -> Iterator[_Name]:
    if isinstance(statement, nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView):
        yield _Name(str(statement.name).casefold(), statement.name.span, number, defines=True)
    for name in _subjects(statement):
        yield _Name(str(name).casefold(), name.span, number)
    for node in walk(statement):
        match node:
            case exp.CTE():
                key, span = node.alias, span_of(node.args["alias"].this)
            case exp.Table(this=exp.Identifier()):
                key, span = ".".join(part.name for part in node.parts), span_of(node.this)
            case _:
                continue
        if span is not None:
            is_cte = isinstance(node, exp.CTE)
            yield _Name(key.casefold(), span, number, is_cte, is_cte)
