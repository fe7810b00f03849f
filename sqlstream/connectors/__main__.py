"""The documentation of connectors in Markdown: what a connector is for, and tables of its options.

``docs/connectors.md`` is made of it, and ``python -m sqlstream.connectors NAME …`` prints it for connectors of others.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable

from sqlstream.connectors import Connector, LookupTable, Sink, Source, connector
from sqlstream.connectors.table_options import CHANGELOG
from sqlstream.errors import SqlStreamError
from sqlstream.options import Option
from sqlstream.planner.catalog import Table


def section(kind: Connector, of_formats: Container[str] = (), formats: str = "") -> list[str]:
    """Returns the Markdown lines of a connector's section: heading, description, options and METADATA columns.

    ``of_formats``: keys of options that are left out because they belong to formats. ``formats``: a sentence with a
    link to the section that describes them.
    """
    own = [o for o in kind.options if o.key not in of_formats]
    roles = (("source", Source), ("lookup table", LookupTable), ("sink", Sink))
    listed = [word for word, role in roles if isinstance(kind, role)]
    use = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
    lines = [f"## {kind.name}", "", f"{escaped(kind.doc)} A {use}.", ""]
    if own:
        lines += [*option_table(own, "source" if isinstance(kind, Source) else "lookup"), ""]
    if len(own) < len(kind.options):
        lines += [formats, ""]
    if metadata := kind.metadata(Table("t", (), kind.name)):
        keys = ", ".join(f"`{key}` {type_}" for key, type_ in metadata.items())
        lines += [f"METADATA columns: {keys}.", ""]
    return lines


def option_table(options: Iterable[Option], reading: str = "source") -> list[str]:
    """Returns the lines of a Markdown table of options. ``reading``: what the table calls options for reading,
    ``source`` or ``lookup``.
    """
    rows = [
        f"| `{o.key}` | {_use(o, reading)} | {escaped(o.kind.accepted)} | {_default(o)} | {escaped(o.doc)} |"
        for o in options
        if o.key != CHANGELOG.key
    ]
    return ["| option | of | value | default | meaning |", "|---|---|---|---|---|", *rows]


def _use(option: Option, reading: str) -> str:
    reading = "lookup" if option.key.startswith("lookup.") else reading
    return ", ".join(word for word, yes in ((reading, option.source), ("sink", option.sink)) if yes)


def _default(option: Option) -> str:
    return "**required**" if option.required else value_cell(option.default)


def value_cell(text: str | None) -> str:
    """Returns the value as inline code for a Markdown table cell; an empty text for None."""
    return "" if text is None else f"`{escaped(text)}`"


def escaped(text: str) -> str:
    """Returns the text for a cell of a Markdown table: ``|`` and ``<`` are escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Prints a section of documentation for each connector named on the command line. Exits with 1 for an unknown
    name.
    """
    try:
        lines = [line for name in sys.argv[1:] for line in section(connector(name))]
    except SqlStreamError as error:
        sys.exit(str(error))
    sys.stdout.write("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
