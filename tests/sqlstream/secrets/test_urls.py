"""URLs as they may be shown, also those whose passwords are not percent-encoded."""

from __future__ import annotations

import pytest

from sqlstream.secrets import is_clear, shown_value

CLEAR = [
    ("http://h:80/users/@me", "http://h:80/users/@me"),
    ("http://h/?e=a@b", "http://h/?e=******"),
    ("https://u:p@h/x?limit=3&k=v&{c}={c}#f", "https://******:******@h/x?limit=3&k=******&{c}={c}#******"),
    ("${BASE}/w/{origin}?key=abc", "${BASE}/w/{origin}?key=******"),
    ("jdbc:postgresql://h/db;password=x?ssl=true", "jdbc:postgresql://h/db;password=******?ssl=true"),
    ("postgresql://me:${PW}@h/db", "postgresql://me:${PW}@h/db"),
    ("redis://:x@[::1]:6379/0", "redis://:******@[::1]:6379/0"),
    ("unix:///tmp/r.sock?db=1", "unix:///tmp/r.sock?db=******"),
]
UNCLEAR = [
    ("http://u:p@ss/w@h/x", "http://******@h/x"),
    ("postgresql://me:p/w@h/db", "postgresql://******@h/db"),
    ("redis://to/ken@h", "redis://******@h"),
    ("redis://me:p?w@h", "redis://******@h"),
    ("redis://me:p#w@h", "redis://******@h"),
    ("http://[::1/x", "******"),
]


@pytest.mark.parametrize(("url", "shown"), [*CLEAR, *UNCLEAR])
def test_secrets_of_urls_are_masked(url: str, shown: str):
    assert shown_value("url", url) == shown


def test_only_urls_whose_password_ends_somewhere_are_clear():
    assert [url for url, _ in [*CLEAR, *UNCLEAR] if not is_clear(url)] == [url for url, _ in UNCLEAR]


@pytest.mark.parametrize("text", ["host=h password=x", "h:p@w/db", "http://h/a\tb?k=v", "\ue000://x"])
def test_what_is_no_url_is_secret_as_a_whole(text: str):
    assert shown_value("url", text) == "******"
