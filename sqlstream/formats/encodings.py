"""Names of text encodings for the option ``encoding``. Arrow is not loaded: statements are checked with this."""

from __future__ import annotations

import codecs


def encoding_of(name: str) -> str:
    """Returns Python's name of the text encoding ``name``, such as ``utf-8``. Raises ValueError where Python has no
    such text encoding.
    """
    try:
        "".encode(name.strip())
        return codecs.lookup(name.strip()).name
    except LookupError as error:
        raise ValueError(name) from error
