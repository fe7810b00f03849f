"""ALTER TABLE and ALTER VIEW: the definition is changed and declared anew; rows stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream import connectors
from sqlstream.catalog import Catalog, Path, full_name
from sqlstream.catalogs.declaring import declared_table
from sqlstream.catalogs.store import Bound, Stored
from sqlstream.errors import BindError, Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.options import find
from sqlstream.planner.catalog import Table, View
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.statements.definition_texts import definition_of
from sqlstream.statements.definitions import declared_view
from sqlstream.statements.partitions import WRONG_CHANGE, change_partitions, partition_names
from sqlstream.statements.statement import OK, Defined, Definition, Execution
from sqlstream.statements.tables import bare, tables_of
from sqlstream.statements.upkeep import look_after, require_upkeep
from sqlstream.workspace import Workspace

# --- ALTER TABLE ----------------------------------------------------------------------------------------------


class AlterTable(Definition[nodes.AlterTable]):
    """Carries out ALTER TABLE: changes the table's definition, makes the folders of added partitions, and removes those
    of dropped ones. If the table is renamed, the rows that the session stores for it are moved. COMPACT and EXPIRE
    SNAPSHOTS leave the definition as it is.
    """

    def define(self, statement: nodes.AlterTable, workspace: Workspace, text: str) -> Table | None:
        """Change the table's definition in the workspace; partitions are checked, not made or removed."""
        catalog = workspace.catalog
        table = existing_table(statement, catalog)
        if table is None:
            return None
        if isinstance(statement.change, nodes.ChangePartitions):
            partition_names(statement.change, table, statement.name.span)
            return table  # ``run`` changes its folders
        if isinstance(statement.change, nodes.Compact | nodes.ExpireSnapshots):
            require_upkeep(statement.change, table, workspace.settings["table.local-time-zone"])
            return table
        path = catalog.path(statement.name)
        path = (*path[:2], catalog_spelling(catalog, path))
        before = definition_of(table, catalog, path)
        if isinstance(statement.change, nodes.RenameTo):
            return _renamed(before, path, statement.change, catalog)
        after = changed(statement.change, before)
        declared = _declared(after, path, catalog, statement.change.span)
        catalog.put("relation", path, declared, Stored(after), statement.name)
        return declared

    def run(self, statement: nodes.AlterTable, execution: Execution) -> Rows:
        """Change the definition, move stored rows to a new name, and make or remove partitions."""
        before = tables_of(statement.name, execution.workspace)
        after = self.define(statement, execution.workspace, execution.text)
        if after is not None:
            for table in before:
                kind = connectors.connector(table.connector)
                if isinstance(kind, connectors.SessionTable) and table.name != after.name:
                    kind.rename(execution.runner.folders.root, table, after)
            change_partitions(statement, after)
            if isinstance(statement.change, nodes.Compact | nodes.ExpireSnapshots):
                look_after(statement.change, after, execution.workspace.settings["table.local-time-zone"])
        return OK


def _existing(statement: nodes.AlterTable | nodes.AlterView, catalog: Catalog) -> Table | View | None:
    """What is altered; None where there is nothing and the statement has IF EXISTS."""
    try:
        return catalog.required(statement.name)
    except BindError:
        if statement.if_exists:
            return None
        raise


def existing_table(statement: nodes.AlterTable, catalog: Catalog) -> Table | None:
    """The table that is altered; None where there is none and the statement has IF EXISTS."""
    relation = _existing(statement, catalog)
    if relation is None:
        return None
    if isinstance(relation, View):
        message = f'"{relation.name}" is a view, not a table'
        raise BindError(WRONG_CHANGE, message, statement.name.span, hint="Write ALTER VIEW.")
    if relation.materialized:
        message = f'"{relation.name}" is a materialized view, not a table'
        hint = "Write ALTER MATERIALIZED VIEW, or CREATE OR REPLACE MATERIALIZED VIEW."
        raise BindError(WRONG_CHANGE, message, statement.name.span, hint=hint)
    return relation


def catalog_spelling(catalog: Catalog, path: Path) -> str:
    """The name of the table or view at ``path`` in upper and lower case as it was created, whatever case the statement
    uses.
    """
    entry = catalog.entry("relation", path)
    return entry.name if entry is not None else path[2]


def _renamed(before: nodes.CreateTable, path: Path, change: nodes.RenameTo, catalog: Catalog) -> Table:
    new = _new_path(path, change.name, catalog)
    stored = Stored(replace(before, name=bare(new[2], change.name)))
    table = declared_table(before, catalog, full_name(new), catalog.variables)
    catalog.rename("relation", path, new, table, stored, change.name)
    return table


def _new_path(path: Path, name: nodes.Name, catalog: Catalog) -> Path:
    """A name alone stays in the database of the old one."""
    if len(name.parts) == 1:
        return (*path[:2], name.parts[0])
    new = catalog.path(name)
    if new[0] != path[0]:
        message = f'"{path[2]}" cannot be moved into another catalog'
        raise BindError(WRONG_CHANGE, message, name.span, hint="CREATE TABLE … LIKE makes another one there.")
    return new


def _declared(statement: nodes.CreateTable, path: Path, catalog: Catalog, at: Span) -> Table:
    """The altered table. What is wrong with it stands at the change, as its other parts are in another text."""
    try:
        return declared_table(statement, catalog.within(path[:2]), full_name(path), catalog.variables)
    except SqlStreamError as error:
        raise SqlStreamError.of(replace(d, span=at, source=None) for d in error.diagnostics) from None


def _wrong(message: str, span: Span, hint: str | None = None) -> BindError:
    return BindError(WRONG_CHANGE, message, span, hint=hint)


def changed(change: nodes.TableChange, table: nodes.CreateTable) -> nodes.CreateTable:
    """Returns the table's definition after one change of ALTER TABLE. BindError SS249 where the change is not
    possible.
    """
    match change:
        case nodes.RenameColumn():
            return _with_renamed_column(change, table)
        case nodes.SetOptions():
            return _with_options(change, table)
        case nodes.ResetOptions():
            return _without_options(change, table)
        case nodes.AddElements():
            return _with_elements(change, table)
        case nodes.ModifyElements():
            return _with_modified_elements(change, table)
        case nodes.RetypeColumn():
            return _with_column_type(change, table)
        case nodes.DropColumns():
            return _without_columns(change, table)
        case nodes.DropElement():
            return _without_element(change, table)
        case nodes.ChangeDistribution():
            return _with_distribution(change, table)
    raise TypeError(type(change).__name__)


def _with_renamed_column(change: nodes.RenameColumn, table: nodes.CreateTable) -> nodes.CreateTable:
    column = _column(change.column, table, change.span)
    _require_new(change.name, [c for c in table.columns if c is not column], change.span)
    renamed = _Renaming(column.name, change.name)
    watermark = table.watermark
    return replace(
        table,
        columns=tuple(renamed.column(c) for c in table.columns),
        watermark=watermark
        and replace(
            watermark, column=renamed.name(watermark.column), expression=renamed.expression(watermark.expression)
        ),
        primary_key=tuple(map(renamed.name, table.primary_key)),
        partitioned_by=tuple(map(renamed.name, table.partitioned_by)),
        distribution=table.distribution
        and replace(table.distribution, columns=tuple(map(renamed.name, table.distribution.columns))),
    )


class _Renaming:
    """Gives a column another name, wherever its table names it."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def name(self, name: str) -> str:
        return self._new if name.casefold() == self._old.casefold() else name

    def column(self, column: nodes.Column) -> nodes.Column:
        named = replace(column, name=self.name(column.name))
        if isinstance(named, nodes.ComputedColumn):
            return replace(named, expression=self.expression(named.expression))
        if isinstance(named, nodes.MetadataColumn) and named.name != column.name:
            return replace(named, key=named.key or column.name)
        return named

    def expression(self, expression: exp.Expression) -> exp.Expression:
        copy = expression.copy()
        for column in [*copy.find_all(exp.Column)]:
            if not column.table and column.name.casefold() == self._old.casefold():
                column.set("this", exp.to_identifier(self._new, quoted=True))
        return copy


def _with_options(change: nodes.SetOptions, table: nodes.CreateTable) -> nodes.CreateTable:
    options = {option.key: option for option in (*table.options, *change.options)}
    return replace(table, options=tuple(options.values()))


def _without_options(change: nodes.ResetOptions, table: nodes.CreateTable) -> nodes.CreateTable:
    given = {option.key for option in table.options}
    if missing := next((key for key in change.keys if key not in given and not _may_have(table, key)), None):
        hint = did_you_mean(missing, sorted(given), "options") or f"It has {', '.join(sorted(given))}."
        raise _wrong(f'the table has no option "{missing}"', change.span, hint)
    return replace(table, options=tuple(o for o in table.options if o.key not in change.keys))


def _may_have(table: nodes.CreateTable, key: str) -> bool:
    """Whether the option has its default, which RESET leaves as it is."""
    name = next((o.value for o in table.options if o.key == "connector"), "")
    kind = connectors.find_connector(name)
    return kind is not None and find(kind.known_options, key) is not None


def _with_elements(change: nodes.AddElements, table: nodes.CreateTable) -> nodes.CreateTable:
    for placed in change.elements:
        match placed.element:
            case nodes.WatermarkDef() as watermark:
                if table.watermark is not None:
                    hint = "Write ALTER TABLE … MODIFY WATERMARK FOR …."
                    raise _wrong("the table has a WATERMARK already", placed.span, hint)
                table = replace(table, watermark=watermark)
            case nodes.PrimaryKey() as key:
                if table.primary_key:
                    hint = "Write ALTER TABLE … MODIFY PRIMARY KEY …."
                    raise _wrong("the table has a PRIMARY KEY already", placed.span, hint)
                table = replace(table, primary_key=key.columns)
            case column:
                _require_new(column.name, table.columns, placed.span)
                table = replace(table, columns=_with_column(table.columns, placed, column, len(table.columns)))
    return table


def _with_modified_elements(change: nodes.ModifyElements, table: nodes.CreateTable) -> nodes.CreateTable:
    for placed in change.elements:
        match placed.element:
            case nodes.WatermarkDef() as watermark:
                if table.watermark is None:
                    raise _wrong("the table has no WATERMARK", placed.span, "Write ALTER TABLE … ADD WATERMARK FOR ….")
                table = replace(table, watermark=watermark)
            case nodes.PrimaryKey() as key:
                if not table.primary_key:
                    raise _wrong("the table has no PRIMARY KEY", placed.span, "Write ALTER TABLE … ADD PRIMARY KEY ….")
                table = replace(table, primary_key=key.columns)
            case column:
                old = _column(column.name, table, placed.span)
                place = table.columns.index(old)
                rest = tuple(c for c in table.columns if c is not old)
                table = replace(table, columns=_with_column(rest, placed, column, place))
    return table


def _with_column(
    columns: Sequence[nodes.Column], placed: nodes.PlacedElement, column: nodes.Column, place: int
) -> tuple[nodes.Column, ...]:
    """The columns with one more, where it says that it stands, else at the place."""
    if placed.first:
        place = 0
    elif placed.after is not None:
        place = 1 + columns.index(_among(placed.after, columns, placed.span))
    return (*columns[:place], column, *columns[place:])


def _with_column_type(change: nodes.RetypeColumn, table: nodes.CreateTable) -> nodes.CreateTable:
    old = _column(change.column, table, change.span)
    if not isinstance(old, nodes.PhysicalColumn | nodes.MetadataColumn):
        raise _wrong(f'column "{old.name}" is computed, and has the type of its expression', change.span)
    return replace(table, columns=tuple(replace(old, type=change.type) if c is old else c for c in table.columns))


def _without_columns(change: nodes.DropColumns, table: nodes.CreateTable) -> nodes.CreateTable:
    gone = [_column(name, table, change.span) for name in change.columns]
    names = {column.name.casefold() for column in gone}
    _require_unused(table, names, change.span)
    kept = tuple(c for c in table.columns if c not in gone)
    if not kept:
        raise _wrong("a table keeps a column at least", change.span, "DROP TABLE drops it.")
    return replace(table, columns=kept)


def _require_unused(table: nodes.CreateTable, gone: set[str], span: Span) -> None:
    """SS249 where a part that stays names a column that goes."""
    watermark = table.watermark
    uses: list[tuple[str, set[str]]] = [
        ("the PRIMARY KEY", {name.casefold() for name in table.primary_key}),
        ("PARTITIONED BY", {name.casefold() for name in table.partitioned_by}),
        ("DISTRIBUTED BY", {name.casefold() for name in table.distribution.columns} if table.distribution else set()),
    ]
    if watermark is not None:
        uses.append(("the WATERMARK", {watermark.column.casefold(), *_names_in(watermark.expression)}))
    uses += [
        (f'column "{c.name}"', _names_in(c.expression))
        for c in table.columns
        if isinstance(c, nodes.ComputedColumn) and c.name.casefold() not in gone
    ]
    for user, names in uses:
        if used := sorted(names & gone):
            hint = f"Drop or change {user} first."
            raise _wrong(f'column "{used[0]}" cannot be dropped: {user} names it', span, hint)


def _names_in(expression: exp.Expression) -> set[str]:
    return {column.name.casefold() for column in expression.find_all(exp.Column)}


def _without_element(change: nodes.DropElement, table: nodes.CreateTable) -> nodes.CreateTable:
    if change.kind == "WATERMARK":
        if table.watermark is None:
            raise _wrong("the table has no WATERMARK", change.span)
        return replace(table, watermark=None)
    if change.kind == "DISTRIBUTION":
        if table.distribution is None:
            raise _wrong("the table is not DISTRIBUTED", change.span)
        return replace(table, distribution=None)
    if not table.primary_key:
        raise _wrong("the table has no PRIMARY KEY", change.span)
    return replace(table, primary_key=())


def _with_distribution(change: nodes.ChangeDistribution, table: nodes.CreateTable) -> nodes.CreateTable:
    if change.adds and table.distribution is not None:
        raise _wrong("the table is DISTRIBUTED already", change.span, "Write ALTER TABLE … MODIFY DISTRIBUTION.")
    if not change.adds and table.distribution is None:
        raise _wrong("the table is not DISTRIBUTED", change.span, "Write ALTER TABLE … ADD DISTRIBUTION.")
    return replace(table, distribution=change.distribution)


def _column(name: str, table: nodes.CreateTable, span: Span) -> nodes.Column:
    return _among(name, table.columns, span)


def _among(name: str, columns: Sequence[nodes.Column], span: Span) -> nodes.Column:
    column = next((c for c in columns if c.name.casefold() == name.casefold()), None)
    if column is None:
        hint = did_you_mean(name, [c.name for c in columns], "columns")
        raise _wrong(f'the table has no column "{name}"', span, hint)
    return column


def _require_new(name: str, columns: Sequence[nodes.Column], span: Span) -> None:
    if any(c.name.casefold() == name.casefold() for c in columns):
        hint = "Write ALTER TABLE … MODIFY to change it."
        raise _wrong(f'the table has a column "{name}" already', span, hint)


# --- ALTER VIEW -----------------------------------------------------------------------------------------------


class AlterView(Definition[nodes.AlterView]):
    """Carries out ALTER VIEW, which renames a view or gives it another query."""

    def define(self, statement: nodes.AlterView, workspace: Workspace, text: str) -> Defined:
        """Change the name or the query of the view in the workspace."""
        catalog = workspace.catalog
        relation = _existing(statement, catalog)
        if relation is None:
            return None
        if isinstance(relation, Table):
            raise _wrong(f'"{relation.name}" is a table, not a view', statement.name.span, "Write ALTER TABLE.")
        path = catalog.path(statement.name)
        path = (*path[:2], catalog_spelling(catalog, path))
        if statement.rename is not None:
            return _renamed_view(relation, path, statement.rename, catalog)
        assert statement.query is not None
        create = nodes.CreateView(statement.name, statement.query, span=statement.span)
        view, stored = declared_view(create, workspace, text)
        stored = replace(stored, statement=replace(stored.statement, name=bare(path[2], statement.name)))
        catalog.put("relation", path, view, stored, statement.name)
        return view


def _renamed_view(view: View, path: Path, change: nodes.RenameTo, catalog: Catalog) -> View:
    new = _new_path(path, change.name, catalog)
    entry = catalog.entry("relation", path)
    stored = entry.stored if isinstance(entry, Bound) else entry
    if stored is not None:
        stored = replace(stored, statement=replace(stored.statement, name=bare(new[2], change.name)))
    renamed = replace(view, name=full_name(new))
    catalog.rename("relation", path, new, renamed, stored, change.name)
    return renamed
