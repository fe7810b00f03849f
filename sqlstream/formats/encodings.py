"""Names of text encodings and of the codecs of Avro, for options, of columns in headers, and the types of raw values.
Arrow is not loaded: statements are checked with this."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

AVRO_CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
"""How blocks of Avro may be compressed, by the names of its specification."""


RAW_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8}
"""The bytes of a value in the format raw, by its type; STRING and BINARY have any number of them."""


def encoding_of(name: str) -> str:
    """Returns Python's name of the text encoding ``name``, such as ``utf-8``. Raises ValueError where Python has no
    such text encoding.
    """
    try:
        "".encode(name.strip())
        return codecs.lookup(name.strip()).name
    except LookupError as error:
        raise ValueError(name) from error


def longer_header(table: str, count: int, file: str, names: Sequence[str]) -> tuple[str, str]:
    """Returns the message, and the hint, for a header that names more than the ``count`` columns of a table."""
    message = (
        f'the header of file "{file}" has {len(names)} columns, and table "{table}" has {count}: it has no '
        f'"{names[count]}"'
    )
    return message, f"A table of CSV files has all of their columns in their order: {', '.join(names)}."
