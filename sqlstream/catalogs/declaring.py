"""From the statement that defines something to what it defines, bound and with its options checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqlstream import connectors
from sqlstream.catalogs.statements_of import create_table
from sqlstream.errors import BindError, Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.options import find
from sqlstream.planner.binder import bind_table
from sqlstream.planner.binder.inserts import NO_PARTITIONS, PARTITIONS_OPTION
from sqlstream.planner.catalog import Catalog, Table, View

_REFERENCE = re.compile(r"\$\{(\w+)\}")


def declared_table(
    statement: nodes.CreateTable, catalog: Catalog, name: str, variables: Mapping[str, str] | None = None
) -> Table:
    """The table that the statement declares under ``name``, its connector and options checked. ``variables`` stand for
    ``${…}`` in options."""
    statement = _of_values(statement)
    options = tuple(replace(o, value=expanded(o.value, variables or {})) for o in statement.options)
    plain = replace(statement, name=nodes.Name((name,), span=statement.name.span), options=options, partitioned_by=())
    partitioned = statement.partitioned_by
    if partitioned:
        plain = replace(plain, options=(*options, _partition_option(statement)))
    table = replace(bind_table(plain, catalog), distributed=statement.distribution is not None)
    if partitioned:
        _require_columns(statement, table)
    if statement.distribution is not None:
        _require_buckets(statement.distribution, table)
    wrong = connectors.validate(table, {option.key: option.span for option in plain.options})
    if wrong:
        raise SqlStreamError.of(wrong)
    return with_traits(table)


_VALUES = "value."


def _of_values(statement: nodes.CreateTable) -> nodes.CreateTable:
    """Options and metadata of the format of the values of Kafka's messages, by their short names. SS205 where both
    names are given."""
    given = {option.key: option for option in statement.options}
    kafka = "connector" in given and given["connector"].value == "kafka"
    long = given.get(f"{_VALUES}format")
    if not kafka or long is None:
        return statement
    if "format" in given:
        raise BindError("SS205", f"'{long.key}' and 'format' say the same", long.span, hint="Leave out one of the two.")
    options = connectors.connector("kafka").known_options

    def short(option: nodes.Option) -> nodes.Option:
        key = option.key.removeprefix(_VALUES)
        return (
            option if find(options, option.key) is not None or find(options, key) is None else replace(option, key=key)
        )

    columns = tuple(
        replace(c, key=(c.key or c.name).removeprefix(_VALUES))
        if isinstance(c, nodes.MetadataColumn) and (c.key or c.name).startswith(_VALUES)
        else c
        for c in statement.columns
    )
    return replace(statement, columns=columns, options=tuple(map(short, statement.options)))


def with_traits(table: Table) -> Table:
    """The table with what its connector knows of it."""
    kind = connectors.connector(table.connector)
    is_source = isinstance(kind, connectors.Source)
    bounded = isinstance(kind, connectors.Source) and kind.bounded(table)
    return replace(table, bounded=bounded, streamed=is_source and not connectors.answers_lookups(table))


def _require_buckets(distribution: nodes.Distribution, table: Table) -> None:
    """BindError SS295 for columns that are not there."""
    names = {column.name.casefold() for column in table.physical_columns}
    missing = next((name for name in distribution.columns if name.casefold() not in names), None)
    if missing is not None:
        message = f'column "{missing}" of DISTRIBUTED BY is no physical column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, distribution.span)


def _partition_option(statement: nodes.CreateTable) -> nodes.Option:
    """PARTITIONED BY is the option of the connector that has partitions."""
    options = {o.key: o for o in statement.options}
    name = options["connector"].value if "connector" in options else ""
    kind = connectors.find_connector(name)
    if kind is None or not _has_partitions(kind):
        having = (kind.name for kind in connectors.installed() if _has_partitions(kind))
        message = f'connector "{name}" has no partitions' if name else "PARTITIONED BY needs a connector"
        hint = f"Connectors that have some: {', '.join(having)}."
        raise BindError(NO_PARTITIONS, message, statement.name.span, hint=hint)
    if PARTITIONS_OPTION in options:
        message = f'PARTITIONED BY and the option "{PARTITIONS_OPTION}" say the same'
        raise BindError(NO_PARTITIONS, message, options[PARTITIONS_OPTION].span, hint="Leave out one of the two.")
    return nodes.Option(PARTITIONS_OPTION, ",".join(statement.partitioned_by), span=statement.name.span)


def _has_partitions(kind: connectors.Connector) -> bool:
    return any(o.key == PARTITIONS_OPTION for o in kind.options)


def _require_columns(statement: nodes.CreateTable, table: Table) -> None:
    names = {c.name.casefold() for c in table.physical_columns}
    missing = next((name for name in statement.partitioned_by if name.casefold() not in names), None)
    if missing is not None:
        message = f'column "{missing}" of PARTITIONED BY is no physical column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, statement.name.span, hint="Declare it among the columns.")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with ``${name}`` replaced by variables; others stay."""
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text) if variables else text


def declared_with(table: Table, options: tuple[nodes.Option, ...], span: Span, catalog: Catalog) -> Table:
    """The table with other options, checked as if they stood in WITH. One that is written keeps its own connector."""
    declared = create_table(table)
    merged = {option.key: option for option in (*declared.options, *options)}
    return declared_table(replace(declared, options=tuple(merged.values()), span=span), catalog, table.name)


def stored_view(
    statement: nodes.CreateView | nodes.CreateMaterializedView, name: str, text: str, namespace: tuple[str, str]
) -> View:
    """The view of a definition, whose mistakes show where it is read."""
    names = tuple(column if isinstance(column, str) else column.name for column in statement.columns)
    return View(name, statement.query, names, text, namespace)
