"""Names of users in paths: a name that somebody else has chosen must never lead out of the folder it stands in."""

from __future__ import annotations

from urllib.parse import quote, unquote


def is_segment(name: str) -> bool:
    """True where a name is that of one file or folder, also where it stands in a URL and is read with its escapes."""
    return all(text not in ("", ".", "..") and not {*text} & {"/", "\0"} for text in (name, unquote(name)))


def as_segment(name: str) -> str:
    """A name as that of one file or folder, another one for each name; names of letters, digits, - and _ stay."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
