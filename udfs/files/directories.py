"""Names of files and of directories ``column=value``, as Spark spells them."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a directory for NULL."""

ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(0x20)}
"""Characters that Spark escapes (``ExternalCatalogUtils``), and NUL, which no name of a file may have."""


def escaped(value: str | None) -> str:
    """Returns the name of a column or its value as it is in the name of a directory."""
    if value is None:
        return NO_PARTITION
    return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in value)


def path_of_url(url: str) -> str:
    """The path on this machine of a file that Spark names ``file:///data/a%20b.parquet``. URLs of objects in stores are
    returned as they are: their keys have no escapes.
    """
    return url if is_url(url) else unquote(urlsplit(url).path)


def is_url(path: str) -> bool:
    """True for the URL of an object in a store, which is no path on this machine."""
    return "://" in path and not path.startswith(("/", "file:"))
