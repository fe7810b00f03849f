"""The options of object stores, which tables of files, Delta and Iceberg share: the properties of pyiceberg's FileIO.

Without an option the libraries look where they always do: environment variables, profiles, the machine's own role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sqlstream.errors import Diagnostic, Span
from sqlstream.options import BOOLEAN, STRING, WRONG_VALUE, Option, OptionKind, integer
from sqlstream.secrets import REFERENCE


def _endpoint(text: str) -> str:
    if REFERENCE.search(text):
        return text.strip()
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.username:
        raise ValueError(text)
    return f"{parts.scheme}://{parts.netloc}"


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


ENDPOINT = OptionKind("URL", "the URL of a server without a path, such as 'http://localhost:9000'", _endpoint)
SECONDS = OptionKind("seconds", "a number of seconds, such as '2.5'", _seconds)

S3_OPTIONS = (
    Option("s3.endpoint", ENDPOINT, "The server, where it is not that of AWS: http://localhost:9000.", sink=True),
    Option("s3.region", STRING, "The region; without it that of the environment or the bucket.", sink=True),
    Option("s3.access-key-id", STRING, "The key, as '${NAME}'.", sink=True),
    Option("s3.secret-access-key", STRING, "The secret of the key, as '${NAME}'.", sink=True),
    Option("s3.session-token", STRING, "The token of temporary keys, as '${NAME}'.", sink=True),
    Option("s3.anonymous", BOOLEAN, "Ask without keys, as for public buckets.", "false", sink=True),
    Option("s3.role-arn", STRING, "A role to take with the keys.", sink=True),
    Option("s3.role-session-name", STRING, "The name of the session of that role.", sink=True),
    Option("s3.connect-timeout", SECONDS, "How long to wait for a connection.", sink=True),
    Option("s3.request-timeout", SECONDS, "How long to wait for an answer.", sink=True),
    Option(
        "s3.force-virtual-addressing", BOOLEAN, "The bucket is in the name of the host, with an endpoint, too.",
        "false", sink=True,
    ),
)  # fmt: skip
GCS_OPTIONS = (
    Option("gcs.project-id", STRING, "The project of Google Cloud.", sink=True),
    Option("gcs.oauth2.token", STRING, "An access token, as '${NAME}', with its end.", sink=True),
    Option("gcs.oauth2.token-expires-at", integer(), "When the token ends, in milliseconds since 1970.", sink=True),
    Option("gcs.service.host", ENDPOINT, "The server, where it is not Google's.", sink=True),
    Option("gcs.anonymous", BOOLEAN, "Ask without credentials, as for public buckets.", "false", sink=True),
)
ADLS_OPTIONS = (
    Option("adls.account-name", STRING, "The account; without it that of the URL.", sink=True),
    Option("adls.account-key", STRING, "The key of the account, as '${NAME}'.", sink=True),
    Option("adls.sas-token", STRING, "A shared access signature, as '${NAME}'.", sink=True),
    Option("adls.tenant-id", STRING, "The tenant of a service principal.", sink=True),
    Option("adls.client-id", STRING, "The service principal, or the managed identity.", sink=True),
    Option("adls.client-secret", STRING, "The secret of the service principal, as '${NAME}'.", sink=True),
    Option("adls.blob-storage-authority", STRING, "The host of the blob service, such as that of Azurite.", sink=True),
    Option("adls.blob-storage-scheme", STRING, "Its protocol, https or http; without it https.", sink=True),
)
STORE_OPTIONS = (*S3_OPTIONS, *GCS_OPTIONS, *ADLS_OPTIONS)
STORE_VARIABLES = tuple(option.key for option in STORE_OPTIONS if option.kind in (STRING, ENDPOINT))
"""The options that take ``${NAME}``."""

PREFIXES = {"s3": "s3.", "gs": "gcs.", "abfss": "adls."}
"""The beginning of the options by the scheme of the URL."""
WEB = ("https", "http")
"""The schemes of web servers, which only send files."""


def scheme_of(path: str) -> str | None:
    """The scheme of a URL in lower case; None for paths."""
    scheme, separator, _ = path.partition("://")
    return scheme.strip().lower() if separator and "/" not in scheme else None


def is_in_store(path: str) -> bool:
    """True for the URL of a store whose objects tasks read and write themselves, or of a web server."""
    return scheme_of(path) in (*PREFIXES, *WEB)


def is_of_web(path: str) -> bool:
    """True for the URLs of files of web servers."""
    return scheme_of(path) in WEB


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of stores that a table has, as parsed values; those that are false are as if not given."""
    keys = (option.key for option in STORE_OPTIONS)
    return {key: value for key in keys if (value := values.get(key)) not in (None, False)}


def check_store_options(
    options: Sequence[tuple[str, str]], path: str, spans: Mapping[str, Span]
) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS504 for options of another store than the path is in, and for halves of pairs."""
    scheme = scheme_of(path)
    prefix = PREFIXES.get(scheme or "")
    for key, _ in options:
        if key.startswith(tuple(PREFIXES.values())) and not (prefix and key.startswith(prefix)):
            wanted = next(name for name, start in PREFIXES.items() if key.startswith(start))
            message = f'option "{key}" is for paths of {wanted}://'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Leave it out, or correct the path.")
    yield from check_pairs(options, spans)


def check_pairs(options: Iterable[tuple[str, str]], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS504 for halves of options that belong together."""
    given = dict(options)
    for one, other in _PAIRS:
        if one in given and other not in given:
            message = f'option "{one}" needs the option "{other}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(one), hint="Give both, or neither.")


_PAIRS = (
    ("s3.access-key-id", "s3.secret-access-key"),
    ("s3.secret-access-key", "s3.access-key-id"),
    ("s3.session-token", "s3.access-key-id"),
    ("s3.role-session-name", "s3.role-arn"),
    ("gcs.oauth2.token", "gcs.oauth2.token-expires-at"),
    ("adls.client-secret", "adls.tenant-id"),
    ("adls.client-secret", "adls.client-id"),
)


# --- the same options for other libraries -------------------------------------------------------------------------

_OF_DELTALAKE = {
    "s3.endpoint": "aws_endpoint_url",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.anonymous": "aws_skip_signature",
    "s3.role-arn": "aws_iam_role_arn",
    "s3.role-session-name": "aws_iam_role_session_name",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}


DELTA_STORE_OPTIONS = tuple(
    option for option in STORE_OPTIONS if option.key in _OF_DELTALAKE or option.key.endswith("-timeout")
)
"""The options that deltalake has, too."""


def deltalake_options(values: Mapping[str, Any]) -> dict[str, str]:
    """The options as deltalake has them."""
    given = given_options(values)
    own = {_OF_DELTALAKE[key]: _text(value) for key, value in given.items() if key in _OF_DELTALAKE}
    for key in ("s3.connect-timeout", "s3.request-timeout"):
        if key in given:
            own["connect_timeout" if "connect" in key else "timeout"] = f"{given[key]}s"
    if given.get("s3.endpoint", "").startswith("http:"):
        own["aws_allow_http"] = "true"
    return own


ICEBERG_STORE_OPTIONS = tuple(option for option in STORE_OPTIONS if option.key != "gcs.anonymous")
"""The options that pyiceberg has, too."""


def pyiceberg_properties(values: Mapping[str, Any]) -> dict[str, str]:
    """The options as pyiceberg has them, by their own names."""
    return {key: _text(value) for key, value in given_options(values).items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def prefixed(values: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """The options with a prefix, without it."""
    return {key.removeprefix(prefix): str(value) for key, value in values.items() if key.startswith(prefix)}
