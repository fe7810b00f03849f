"""The pages of connectors and settings: their tables come from the descriptions in the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sqlstream.connectors import BUILT_IN, Connector, connector
from sqlstream.connectors.__main__ import escaped, option_table, section, value_cell
from sqlstream.connectors.change_formats import CHANGE_OPTIONS, TEXT_OPTIONS
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_CONFLUENT_OPTIONS, JSON_OPTIONS
from sqlstream.connectors.schema_formats import AVRO_CONFLUENT, REGISTERED, SCHEMA_OPTIONS, registry_options
from sqlstream.options import Option
from sqlstream.settings import OPTIONS, PLANNED

_HERE = Path(__file__).parent
_OF_REGISTRIES = {option.key for form in REGISTERED for option in registry_options(form)}
_REGISTRIES = [replace(o, key=f"…{o.key.removeprefix('avro')}") for o in registry_options(AVRO_CONFLUENT)]
"""The options of a registry, which are those of all formats with one."""
_FORMATS = (*CSV_OPTIONS, *JSON_OPTIONS, *(o for o in SCHEMA_OPTIONS if o.key not in _OF_REGISTRIES), *TEXT_OPTIONS)
_OF_SCHEMAS = [option.key for option in (*SCHEMA_OPTIONS, *JSON_CONFLUENT_OPTIONS)]
_ELSEWHERE = {o.key for o in (*_FORMATS, *CHANGE_OPTIONS)} | {*_OF_SCHEMAS, *(f"key.{key}" for key in _OF_SCHEMAS)}
"""Options that the sections of connectors leave out."""
_OF_FILES = {"avro.timestamp_mapping.legacy"}
"""But this one, which files have, too."""


_REGISTRY_NOTE = (
    "The formats whose names end with `-confluent` have these, each with its own name for the dots, as in "
    "`avro-confluent.url`; `json-confluent` has those of `json`, too. Options of keys begin with `key.`, as in "
    "`key.avro-confluent.url`."
)


def connectors_page() -> str:
    """What is said of all connectors, and a section for each."""
    sections = [_section(connector(name)) for name in BUILT_IN if name != "test"]
    formats = ["## Options of the formats", "", *option_table(_FORMATS)]
    formats += ["", _REGISTRY_NOTE, "", *option_table(_REGISTRIES)]
    return "\n".join([_part("connectors"), "", *(line for s in sections for line in s), *formats]) + "\n"


def settings_page() -> str:
    """The keys of SET, and those that are refused for now."""
    rows = [
        f"| `{o.key}` | {o.kind.accepted} | {value_cell(o.default)} | {escaped(o.doc)} |"
        for o in sorted(OPTIONS, key=lambda o: o.key)
    ]
    planned = [f"| `{key}` | {escaped(instead)} |" for key, instead in sorted(PLANNED.items())]
    return "\n".join(
        [
            _part("settings"), "",
            "| key | value | default | effect |", "|---|---|---|---|", *rows, "",
            "Keys of Flink that are known and have no effect yet are refused (SS350), never stored:", "",
            "| key | what holds instead |", "|---|---|", *planned,
        ]
    ) + "\n"  # fmt: skip


def _part(name: str) -> str:
    """What is written by hand: an introduction, or notes on a connector; empty where there are none."""
    path = _HERE / "parts" / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _has(kind: Connector, options: Iterable[Option]) -> bool:
    """Whether a connector has the options of a format, of which sources have those for reading alone."""
    return {option for option in options if option.source} <= set(kind.options)


def _section(kind: Connector) -> list[str]:
    names = "csv or json, or one of changes," if _has(kind, TEXT_OPTIONS) else "csv or json"
    names = "csv or json, one with a schema, or one of changes," if _has(kind, SCHEMA_OPTIONS) else names
    formats = f"With the format {names} also [their options](#options-of-the-formats)."
    lines = section(kind, _ELSEWHERE - _OF_FILES, formats)
    notes = _part(kind.name)
    return [*lines, notes, ""] if notes else lines
