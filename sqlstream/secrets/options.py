"""The secrets in options, in texts of others and in scripts. The value of an option that is not listed here is a
secret.

Connectors of other packages add names (``show_values_of``), except those that ``_NEVER`` excludes.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote

from sqlstream.secrets.urls import MASK, REFERENCE, TextPiece, body_pieces, guarded, is_open, shown, url_pieces

_NEVER = re.compile(
    r"passw|pwd|passphrase|secret|token|\bauth\b|authorization|api[-_.]?key|access[-_.]?key|account[-_.]?key|"
    r"private[-_.]?key|credential|jaas|signature|user[-_.]info|\bsas\b",
    re.IGNORECASE,
)
"""Names that no rule below allows."""

_PLAIN = re.compile(
    r"""
    ( connector | format | method | path | topic | topic-pattern | host | hostname | port | database | table-name
    | username | driver | database-name | schema-name | ( slot | publication | decoding\.plugin )\.name
    | heartbeat\.interval | connect\.timeout | server-id | ssl\.( mode | ca-file | cert-file | key-file )
    | key | key\.fields | value-column | data-type | timeout | ttl | seed | number-of-rows | role
    | max-connections | max-answer-bytes | max-message-bytes | status\.miss | changelog-mode | on-error
    | on-data-loss | kafka\.client
    | partition-by | sort-by | replaced-partition | connect-timeout | version-as-of | timestamp-as-of | delta\. .+
    | catalog\.( name | type | warehouse )
    | encoding | statement-timeout | create-table | indexes | type | owner | client\.timeout
    | default-database | rows-per-second | ramp-up-time | print-identifier | standard-error
    | key\.( format | fields-prefix ) | value\.( format | fields-include )
    | ( key | value )\.( avro | csv | json | protobuf | raw ) \. .+
    | (key\.|value\.)? ( avro | json | protobuf | debezium-avro )-confluent
      \.( subject | schema | timeout | ssl\.(keystore|truststore)\.location | properties\.auto\.register\.schemas
      | timestamp_mapping\.legacy | message-class-name | read-default-values | ignore-parse-errors
      | fail-on-missing-field | timestamp-format\.standard | map-null-key\..+ | encode\..+ )
    | ( canal | debezium | maxwell | ogg )-json\. .+
    | ( arrow | avro | csv | json | protobuf | raw | parquet | orc ) \. .+
    | ( fields | columns | scan | source | sink | lookup | test | print ) \. .+
    | sink-.+
    | spool\.max-bytes | reconnect\.( delay | max-delay | timeout ) | silence\.timeout | body\.timeout
    | event-types | event-id | subprotocols | hmac\.header | id\.( header | remembered ) | open | split
    | ssl\.( certificate | key )
    | ( execution | pipeline | parallelism | restart-strategy | shell | sql-client | sqlstream | table | state ) \. .+
    | ( lineage | logging | metrics | traces ) \. .+
    | scheduler-mode
    | s3\.( region | anonymous | role-session-name | (connect|request)-timeout | force-virtual-addressing )
    | gcs\.( project-id | anonymous ) | adls\.( account-name | blob-storage-(authority|scheme) )
    | topic\.( create | partitions | replication-factor | config\. .+ )
    | spark\. (?! hadoop\. | executorEnv\. | yarn\.appMasterEnv\. | kubernetes\. ) .+
    )""",
    re.VERBOSE,
)
_HEADER = re.compile(r"(?:.*\.)?headers?\.(.+)", re.IGNORECASE)
_URL = re.compile(r"(?:.*[.-])?(?:url|uri)|s3\.endpoint|gcs\.service\.host", re.IGNORECASE)
_BODY = re.compile(r"(?:batch\.)?body")
_FUNCTION = re.compile(r"properties\.sasl\.oauthbearer\.token\.function")
"""Names who gives tokens, and is none."""
_NAME_OF_FUNCTION = re.compile(r"\s*[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*\s*")
_PROPERTY = re.compile(r"(?:properties|spark\.hadoop)\.(.+)")

_HEADERS = """
    accept accept-charset accept-encoding accept-language cache-control connection content-encoding content-language
    content-type date expect idempotency-key if-match if-modified-since if-none-match if-unmodified-since max-forwards
    pragma prefer range user-agent
"""
_HARMLESS_HEADERS = frozenset(_HEADERS.split())
_HARMLESS_PROPERTIES = re.compile(
    r"bootstrap\.servers | group\.id | client\.(id|rack) | security\.protocol | sasl\.mechanism | acks | retries"
    r"| compression\.type | isolation\.level | auto\.offset\.reset | commit\.offsets\.on\.checkpoint"
    r"| enable\.idempotence | transactional\.id"
    r"| ssl\.(protocol|provider|cipher\.suites|enabled\.protocols|endpoint\.identification\.algorithm)"
    r"| ssl\.(keystore|truststore)\.(type|location) | sasl\.kerberos\.service\.name"
    r"| fs\.s3a\.(endpoint|path\.style\.access)"
    r"| .+\.(ms|bytes|size|records|requests|enable|enabled|impl|region|interval)",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\s,]+|[\s,]+")
_NAME_BEFORE, _VALUE = re.compile(r"([\w.-]+)\s*=\s*"), re.compile(r"'(?:[^'\\]|\\.)*'|\S+")
_PAIRS = re.compile(r"lineage\.openlineage\.kafka\.properties")
"""Properties of a client in one value: ``security.protocol=SASL_SSL;sasl.username=me;sasl.password=…``."""


_declared: set[str] = set()


def show_values_of(keys: Iterable[str]) -> None:
    """Declare that the values of these options are not secrets; ``#`` in a key stands for any word."""
    _declared.update(re.escape(key).replace(r"\#", ".+") for key in keys)


def is_harmless_header(name: str) -> bool:
    """True for headers that are no secrets for any server."""
    return name.casefold() in _HARMLESS_HEADERS


def is_known(key: str) -> bool:
    """True for option keys with a rule by which public parts of the value are shown."""
    return _rule(key) is not guarded


def may_be_secret(key: str) -> bool:
    """True where the option's value, or a part of it such as the user of a URL, can be a secret."""
    return _rule(key) not in (text_pieces, _host_pieces)


def has_secret_name(key: str) -> bool:
    """True where the name of the option alone shows that its value is a secret."""
    return _NEVER.search(key) is not None and not _URL.fullmatch(key) and not _FUNCTION.fullmatch(key)


def pieces_of(key: str, value: str) -> list[TextPiece]:
    """Splits the value of an option into public and secret pieces, by the rule of its key."""
    return _rule(key)(value)


def shown_value(key: str, value: str) -> str:
    """The value for display: ``******`` replaces its secret parts."""
    return shown(pieces_of(key, value))


def secret_texts(key: str, value: str) -> list[str]:
    """The secret parts of a value, which ``shown_value`` masks."""
    return [piece.text for piece in pieces_of(key, value) if piece.secret]


def _rule(key: str) -> Callable[[str], list[TextPiece]]:
    header = _HEADER.fullmatch(key)
    if header is not None:
        return text_pieces if is_harmless_header(header[1]) else guarded
    if _FUNCTION.fullmatch(key):
        return _function_pieces
    if _PAIRS.fullmatch(key):
        return _pairs_pieces
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
    """Splits a text, which is public except for secrets in its URLs and after ``password=``, into public and secret
    pieces.
    """
    if re.match(r"[A-Za-z][\w+.:-]*://", text):
        return url_pieces(text)
    if "://" in text:
        return [piece for word in _WORD.findall(text) for piece in _of_word(word)]
    pieces, end, at = [], 0, 0
    while (named := _NAME_BEFORE.search(text, at)) is not None:
        at = named.end()  # what follows a harmless name may hold another one: user=me;password=…
        value = _VALUE.match(text, at) if _NEVER.search(named[1]) else None
        if value is not None:
            pieces += [TextPiece(text[end:at]), *guarded(value[0])]
            end = at = value.end()
    return [*pieces, TextPiece(text[end:])]


def _pairs_pieces(text: str) -> list[TextPiece]:
    """Splits properties of a client, each by its own rule, as that of a table's option ``properties.NAME``."""
    pieces = []
    for number, pair in enumerate(text.split(";")):
        name, equals, value = pair.partition("=")
        pieces += [TextPiece(f"{';' if number else ''}{name}{equals}"), *_rule(f"properties.{name.strip()}")(value)]
    return pieces


def _host_pieces(text: str) -> list[TextPiece]:
    """A host. If a user is written before it, both user and password are secret."""
    user, at, host = text.rpartition("@")
    return [*(guarded(user) if at else ()), TextPiece(at), *text_pieces(host)]


def _function_pieces(text: str) -> list[TextPiece]:
    """The name of a function is public; what else stands there may be a token."""
    return text_pieces(text) if _NAME_OF_FUNCTION.fullmatch(text) else guarded(text)


def _of_word(word: str) -> list[TextPiece]:
    return url_pieces(word) if "://" in word else [TextPiece(word)]


# --- Known secrets, hidden in texts of others ------------------------------------------------------------------


_LONG = 8
"""Secrets of so many characters are hidden within words, too; a shorter one may be a part of any word."""
SHORTEST = 3
"""Fewer characters tell nothing."""
_EVERYWHERE = frozenset(
    {"true", "false", "null", "none", "yes", "json", "http", "https", "jdbc", "postgres", "postgresql", "redis"}
)
"""What texts are full of tells nothing."""

_BEFORE = r"(?:(?<!\w)|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrtbf]))"
_AFTER = r"(?!\w)"
_INNER = re.compile(r"\"([^\"]+)\"|'([^']+)'|=\s*([^\s;,&\"']+)|\b(?:Bearer|Basic)\s+(\S+)")
_ENDS = re.compile(r"[@/?#:,;]+")
"""Who takes a password for a URL, or a URL apart, may show what stands between them."""


@dataclass(frozen=True)
class Secrets:
    """Texts that must not be shown, even in ``repr``."""

    known: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, secrets: Iterable[str]) -> Secrets:
        """The secrets, and those inside them: the token of ``Bearer …``, the password of ``user:password``."""
        telling = dict.fromkeys(text for secret in secrets for text in _parts(secret) if _is_telling(text))
        return cls(tuple(telling))

    def __add__(self, other: Secrets) -> Secrets:
        return Secrets(tuple(dict.fromkeys((*self.known, *other.known))))

    def hidden(self, text: str) -> str:
        """The text with secrets, in any of their spellings, replaced by ``******``."""
        return _pattern(self.known).sub(MASK, text) if self.known else text

    def show_in(self, text: str) -> bool:
        """Whether a text contains one of the secrets."""
        return bool(self.known) and _pattern(self.known).search(text) is not None


NO_SECRETS = Secrets()


def _parts(secret: str) -> Iterator[str]:
    yield secret
    for match in _INNER.finditer(secret):
        yield from filter(None, match.groups())
    yield from (secret.partition(":")[2], *_ENDS.split(secret))
    if len(lines := secret.splitlines()) > 1:  # messages may show one of them, or all in one line
        yield from (" ".join(secret.split()), *(line.strip() for line in lines))


def _is_telling(secret: str) -> bool:
    text = secret.strip()
    return len(text) >= SHORTEST and text.casefold() not in _EVERYWHERE and not (text.isdecimal() and len(text) < 4)


@lru_cache(64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern of all secrets, longer ones first, because one may be a part of another."""
    spelled = sorted({form for secret in secrets for form in _spellings(secret)}, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_expression, spelled)))


def _expression(form: str) -> str:
    text = f"(?i:{re.escape(form)})" if "%" in form else re.escape(form)  # %2f is %2F
    return text if len(form) >= _LONG else f"{_BEFORE}{text}{_AFTER}"


def _spellings(secret: str) -> Iterator[str]:
    """The spellings of a secret in URLs, JSON, SQL, HTML, Python and basic authentication."""
    for text in {secret, unquote(secret, errors="surrogateescape"), _unescaped(secret)}:
        yield text
        yield quote(text, safe="", errors="surrogatepass")
        yield quote(text, errors="surrogatepass")
        yield quote_plus(text, errors="surrogatepass")
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield text.replace("'", "''")
        yield repr(text)[1:-1]
        yield html.escape(text)
        yield base64.b64encode(text.encode(errors="surrogatepass")).decode("ascii")


def _unescaped(secret: str) -> str:
    """The text without the escapes of JSON."""
    try:
        decoded = json.loads(f'"{secret}"')
    except ValueError:
        return secret
    return decoded if isinstance(decoded, str) else secret


# --- SQL text in messages --------------------------------------------------------------------------------------
# A text with a mistake is no SQL: the mistake may stand just where a password does. What follows the name of a secret
# is hidden however that is written. So are passwords in URLs, wherever they stand.


_BETWEEN = "'\"` \t\r\n"
_STRING = r"(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
_OPTION = re.compile(rf"({_STRING})(\s*=\s*)({_STRING})", re.DOTALL)
_HINTS = re.compile(r"/\*\+[\s,]*(?:(?:LOOKUP|STATE_TTL)\s*\([^()]*\)[\s,]*)+\*/", re.IGNORECASE)
_LINE_STRING = r"(?:'(?:[^'\\\n]|\\.|'')*'|\"(?:[^\"\\\n]|\\.|\"\")*\")"
"""In one line: an apostrophe in a comment ends with its line."""
_LITERAL = re.compile(_LINE_STRING)

_BLANK = r"(?:\s|/\*(?!\+).*?\*/)*"
_NAME = re.compile(
    rf"(?P<set>\bSET\b{_BLANK})?(?P<name>{_LINE_STRING}|`[^`\n]*`|[A-Za-z_][\w.-]*)"
    rf"(?=(?P<sign>{_BLANK}(?:={{1,2}}>?|:=?|\bTO\b){_BLANK}|{_BLANK},?{_BLANK}))",
    re.DOTALL | re.IGNORECASE,
)
"""What may be the name of a secret, with what stands between it and the secret."""
_LIST = re.compile(r"\b(?:WITH|OPTIONS)\s*\([^;]*", re.IGNORECASE)
"""Where options are listed, and what follows them."""
_QUOTED = r"'(?:[^'\\\n]|\\.|'')*'|\"(?:[^\"\\\n]|\\.|\"\")*\"|`[^`\n]*`|[“”‘’][^“”‘’\n]*[“”‘’]|\$\$.*?\$\$"
_WORDS = re.compile(rf"(?:\w?(?:{_QUOTED})|\([^()\n]*\)|['\"`“‘][^\n]*|[^,;()\n'\"`])*", re.DOTALL)
"""All up to the next comma; behind a quote that is never closed, the rest of the line."""
_QUOTED_VALUE = re.compile(rf"\w?(?:{_QUOTED}|['\"][^\n]*)", re.DOTALL)
_AS_IT_SHOULD_BE = re.compile(rf"{_STRING}(?:\s|--[^\n]*|/\*.*?\*/)*(?:[,);]|\Z)", re.DOTALL)
_SCRIPTS_WORD = re.compile(r"\w{3,}")


class _SecretSpan(NamedTuple):
    """The place of a secret. ``whole``: the secret is a complete string literal; else its end is uncertain."""

    start: int
    end: int
    whole: bool = True


@lru_cache(maxsize=4)  # each of many mistakes shows a line of the same text
def shown_script(text: str) -> str:
    """The text with secrets replaced by stars; all other characters keep their positions."""
    shown = list(text)
    for start, end, _ in _places(text):
        shown[start:end] = ["\n" if character == "\n" else "*" for character in text[start:end]]
    return "".join(shown)


@lru_cache(16)
def secrets_of_script(text: str) -> Secrets:
    """The secrets of a script, which ``shown_script`` masks, for messages that quote single words."""
    secrets = [(text[hidden.start : hidden.end], hidden.whole) for hidden in _places(text)]
    words = [word for secret, whole in secrets if not whole for word in _SCRIPTS_WORD.findall(secret)]
    return Secrets.of([*(secret for secret, _ in secrets), *words]) if secrets else NO_SECRETS


def option_at(text: str, offset: int) -> str | None:
    """Returns the key of the option whose value contains the character at ``offset`` of a script; None where no option
    does.
    """
    keys = (o[1][1:-1] for o in _OPTION.finditer(text) if o.start(3) <= offset < o.end(3))
    return next(keys, None)


@lru_cache(16)
def _places(text: str) -> tuple[_SecretSpan, ...]:
    """The places of option values, of texts after the names of secrets, and of all other strings.

    Hints such as LOOKUP and STATE_TTL list no options.
    """
    text = _HINTS.sub(lambda hint: " " * len(hint[0]), text)
    options = list(_OPTION.finditer(text))
    values = {option.start(3) for option in options}
    match = [hidden for o in options for hidden in _secret(pieces_of(o[1][1:-1], o[3][1:-1]), o.start(3) + 1)]
    lists = [(match.start(), match.end()) for match in _LIST.finditer(text)]
    functions = {option.start(3) for option in options if _FUNCTION.fullmatch(option[1][1:-1])}
    for name in _NAME.finditer(text):
        if name.start("name") in functions:  # the value of an option, 'my.module:token', and no name of a secret
            continue
        listed = name["set"] is not None or any(start < name.start() < end for start, end in lists)
        match += _behind(name, text, listed)
    others = (string for string in _LITERAL.finditer(text) if string.start() not in values)
    return (*match, *(hidden for o in others for hidden in _secret(text_pieces(o[0][1:-1]), o.start() + 1)))


def _secret(pieces: Iterable[TextPiece], start: int) -> Iterator[_SecretSpan]:
    for piece in pieces:
        end = start + len(piece.text)
        if piece.secret and len(piece.text) >= SHORTEST:
            yield _SecretSpan(start, end)
        start = end


def _behind(name: re.Match[str], text: str, listed: bool) -> Iterator[_SecretSpan]:
    """The text after a name, if the name says that it is a secret and it is not a well-formed option.

    ``listed``: among options, or in SET, where an unknown name counts as one of a secret, too.
    """
    expected = _expected(name, listed)
    value = None if expected is None else expected.match(text, name.end("sign"))
    if value is None or is_open(value[0].strip(_BETWEEN)):
        return
    option = name["name"][0] in "'\"" and name["sign"].strip() == "="
    if not option or not _AS_IT_SHOULD_BE.match(text, value.start()):
        yield _SecretSpan(value.start(), value.start() + len(value[0].rstrip()), whole=False)


def _expected(name: re.Match[str], listed: bool) -> re.Pattern[str] | None:
    """The token after a name that may be a secret; None where it is harmless."""
    key, sign = name["name"].strip(_BETWEEN), name["sign"].strip()
    quoted = name["name"][0] in _BETWEEN
    if REFERENCE.fullmatch(key):  # the value of an option, '${PASSWORD}', and no name
        return None
    if sign in ("", ","):
        return _QUOTED_VALUE if has_secret_name(key) and (quoted or not sign) else None
    if not has_secret_name(key) and not (quoted and listed and may_be_secret(key)):
        return None
    return _WORDS if quoted or listed else _QUOTED_VALUE
