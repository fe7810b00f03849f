"""Names of text encodings, and of the codecs of Avro, for options. Arrow is not loaded: statements are checked with
this."""

from __future__ import annotations

import codecs

AVRO_CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
"""How blocks of Avro may be compressed, by the names of its specification."""


def encoding_of(name: str) -> str:
    """Returns Python's name of the text encoding ``name``, such as ``utf-8``. Raises ValueError where Python has no
    such text encoding.
    """
    try:
        "".encode(name.strip())
        return codecs.lookup(name.strip()).name
    except LookupError as error:
        raise ValueError(name) from error
