"""URLs of objects: their buckets and keys, and patterns of them."""

from __future__ import annotations

import glob
import re
from typing import NamedTuple


class StoredObject(NamedTuple):
    """An object: its URL, its size in bytes, and its modification time in microseconds since 1970."""

    url: str
    size: int
    modified: int


def root_of(path: str) -> str:
    """The folder in which a pattern begins; of other paths the path itself."""
    if not glob.has_magic(path):
        return path
    begin = re.split(r"[*?\[]", path)[0]
    return begin[: begin.rindex("/") + 1]


def key_of(url: str) -> str:
    """Bucket and key, as pyarrow has them; of Azure the container and the key."""
    bucket, _, key = url.partition("://")[2].partition("/")
    return f"{bucket.partition('@')[0]}/{key}" if key else bucket.partition("@")[0]


def url_of(folder: str, key: str) -> str:
    """The URL of the object with a bucket and key, which is in the same bucket as ``folder``."""
    scheme, _, rest = folder.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{key.partition('/')[2]}"


def is_hidden(url: str, root: str) -> bool:
    """True where a name below the folder ``root`` begins with ``_`` or ``.``."""
    inside = url[len(root.rstrip("/")) :].strip("/")
    return any(name.startswith(("_", ".")) for name in inside.split("/"))


def matching(path: str) -> re.Pattern[str] | None:
    """The pattern of a path as a regular expression of keys: of objects that it fits, and of those in folders that it
    fits; None where the path is no pattern.
    """
    if not glob.has_magic(path):
        return None
    parts = []
    for name in key_of(path).strip("/").split("/"):
        if name == "**":
            parts.append("(?:[^/]+/)*")
            continue
        pieces = re.split(r"(\*|\?|\[!?\]?[^\]]*\])", name)
        parts.append("".join(map(_piece, pieces)) + "/")
    return re.compile("".join(parts).removesuffix("/") + "(?:/.*)?")


def _piece(piece: str) -> str:
    match piece:
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        members = re.escape(piece[1:-1].removeprefix("!")).replace(r"\-", "-")
        return f"[{'^' if piece[1] == '!' else ''}{members}]"
    return re.escape(piece)
