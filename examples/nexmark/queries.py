"""The queries of Nexmark, one text a file in ``queries/``, and the tables that they read.

They are written as for Flink SQL, with the names of https://github.com/nexmark/nexmark; ``cep0`` to ``cep3`` are its
pattern queries. Flink refuses q6, whose OVER reads a changelog.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "queries"
_TEST = "'connector' = 'test'"


def _number(path: Path) -> tuple[bool, int]:
    kind = path.stem.rstrip("0123456789")
    return kind != "q", int(path.stem.removeprefix(kind))


QUERIES = {path.stem: path.read_text() for path in sorted(_FOLDER.glob("*[0-9].sql"), key=_number)}

FUNCTIONS = "CREATE TEMPORARY FUNCTION count_char AS 'examples.nexmark.functions.count_char' LANGUAGE PYTHON;\n"
"""Of q14."""

_TABLES = (_FOLDER / "tables.sql").read_text()


def tables(options: str = _TEST, lookup_options: str = f"{_TEST}, 'role' = 'lookup'") -> str:
    """The statements that make them. ``options``: of ``WITH``, where ``{table}`` is the name of a table; those of the
    table that q13 looks values up in."""
    text = _TABLES
    for name in ("person", "auction", "bid"):
        text = text.replace(f"${{{name}}}", options.replace("{table}", name))
    return text.replace("${side_input}", lookup_options)


TABLES = tables()
