"""Which options hold secrets. Names only ever allow: the value of an option that is not listed here is a secret.

Connectors of other packages add names (``show_values_of``), of which none can allow what ``_NEVER`` excludes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sqlstream.secrets.bodies import body_pieces
from sqlstream.secrets.pieces import TextPiece, guarded, shown
from sqlstream.secrets.urls import url_pieces

_NEVER = re.compile(
    r"passw|pwd|passphrase|secret|token|\bauth\b|authorization|api[-_.]?key|access[-_.]?key|account[-_.]?key|"
    r"private[-_.]?key|credential|jaas|signature|user[-_.]info|\bsas\b",
    re.IGNORECASE,
)
"""Names that no rule below allows."""

_PLAIN = re.compile(
    r"""
    ( connector | format | method | path | topic | topic-pattern | host | hostname | port | database | table-name
    | username | driver | key | key\.fields | value-column | data-type | timeout | ttl | seed | number-of-rows | role
    | max-connections | max-answer-bytes | status\.miss | changelog-mode | on-error | partition-by | connect-timeout
    | statement-timeout | create-table | indexes | type | owner | client\.timeout
    | default-database | rows-per-second | ramp-up-time | print-identifier | standard-error
    | key\.( format | fields-prefix | ( csv | json ) \. .+ ) | value\.( format | fields-include )
    | ( canal | debezium | maxwell | ogg )-json\. .+
    | ( csv | json | raw | parquet | orc | fields | columns | scan | source | sink | lookup | test | print ) \. .+
    | sink-.+
    | ( execution | pipeline | parallelism | restart-strategy | shell | sql-client | sqlstream | table | state ) \. .+
    | scheduler-mode
    | spark\. (?! hadoop\. | executorEnv\. | yarn\.appMasterEnv\. | kubernetes\. ) .+
    )""",
    re.VERBOSE,
)
_HEADER = re.compile(r"(?:.*\.)?headers?\.(.+)", re.IGNORECASE)
_URL = re.compile(r"(?:.*[.-])?(?:url|uri)", re.IGNORECASE)
_BODY = re.compile(r"(?:batch\.)?body")
_PROPERTY = re.compile(r"(?:properties|spark\.hadoop)\.(.+)")

_HEADERS = """
    accept accept-charset accept-encoding accept-language cache-control connection content-encoding content-language
    content-type date expect idempotency-key if-match if-modified-since if-none-match if-unmodified-since max-forwards
    pragma prefer range user-agent
"""
_HARMLESS_HEADERS = frozenset(_HEADERS.split())
_HARMLESS_PROPERTIES = re.compile(
    r"bootstrap\.servers | group\.id | client\.(id|rack) | security\.protocol | sasl\.mechanism | acks | retries"
    r"| compression\.type | isolation\.level | auto\.offset\.reset | enable\.idempotence | transactional\.id"
    r"| ssl\.(protocol|provider|cipher\.suites|enabled\.protocols|endpoint\.identification\.algorithm)"
    r"| ssl\.(keystore|truststore)\.(type|location) | sasl\.kerberos\.service\.name"
    r"| fs\.s3a\.(endpoint|path\.style\.access)"
    r"| .+\.(ms|bytes|size|records|requests|enable|enabled|impl|region|interval)",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\s,]+|[\s,]+")
_NAMED_VALUE = re.compile(r"([\w.-]+)(\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)")


_declared: set[str] = set()


def show_values_of(keys: Iterable[str]) -> None:
    """Treat the values of these options as no secrets; ``#`` in a key stands for any word."""
    _declared.update(re.escape(key).replace(r"\#", ".+") for key in keys)


def is_harmless_header(name: str) -> bool:
    """True for headers that any server may see."""
    return name.casefold() in _HARMLESS_HEADERS


def is_known(key: str) -> bool:
    """True where more of the option's value is shown than references to variables."""
    return _rule(key) is not guarded


def may_be_secret(key: str) -> bool:
    """True where the option's value, or a part of it such as a user of a URL, can be a secret."""
    return _rule(key) not in (text_pieces, _host_pieces)


def has_secret_name(key: str) -> bool:
    """True where a name alone tells that its value is a secret."""
    return _NEVER.search(key) is not None and not _URL.fullmatch(key)


def pieces_of(key: str, value: str) -> list[TextPiece]:
    return _rule(key)(value)


def shown_value(key: str, value: str) -> str:
    """The value as it may be shown: ``******`` for what is secret."""
    return shown(pieces_of(key, value))


def secret_texts(key: str, value: str) -> list[str]:
    """What ``shown_value`` hides."""
    return [piece.text for piece in pieces_of(key, value) if piece.secret]


def _rule(key: str) -> Callable[[str], list[TextPiece]]:
    header = _HEADER.fullmatch(key)
    if header is not None:
        return text_pieces if is_harmless_header(header[1]) else guarded
    if _NEVER.search(key) and not _URL.fullmatch(key):
        return guarded
    if _URL.fullmatch(key):
        return url_pieces
    if _BODY.fullmatch(key):
        return body_pieces
    if key in ("host", "hostname"):
        return _host_pieces
    property_ = _PROPERTY.fullmatch(key)
    if property_ is not None:
        return text_pieces if _HARMLESS_PROPERTIES.fullmatch(property_[1]) else guarded
    plain = _PLAIN.fullmatch(key) or any(re.fullmatch(pattern, key) for pattern in _declared)
    return text_pieces if plain else guarded


def text_pieces(text: str) -> list[TextPiece]:
    """A text that is shown, but for secrets in the URLs in it and for ``password=…``."""
    if re.match(r"[A-Za-z][\w+.:-]*://", text):
        return url_pieces(text)
    if "://" in text:
        return [piece for word in _WORD.findall(text) for piece in _of_word(word)]
    pieces, end = [], 0
    for named in _NAMED_VALUE.finditer(text):
        if _NEVER.search(named[1]):
            pieces += [TextPiece(text[end : named.start(3)]), *guarded(named[3])]
            end = named.end()
    return [*pieces, TextPiece(text[end:])]


def _host_pieces(text: str) -> list[TextPiece]:
    """A host has no user; who writes one beside it writes the password, too."""
    user, at, host = text.rpartition("@")
    return [*(guarded(user) if at else ()), TextPiece(at), *text_pieces(host)]


def _of_word(word: str) -> list[TextPiece]:
    return url_pieces(word) if "://" in word else [TextPiece(word)]
