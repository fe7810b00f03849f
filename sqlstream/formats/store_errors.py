"""Errors of object stores: what the libraries say, as diagnostics with hints."""

from __future__ import annotations

import re

from sqlstream.errors import ConnectorError

DENIED = "SS675"
NO_BUCKET = "SS676"
UNREACHABLE = "SS677"

_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH|MISSING_AUTHENTICATION|"
    r"UNRECOGNIZED_CLIENT|INVALID_SIGNATURE|EXPIRED_TOKEN|REQUEST_EXPIRED|HTTP status 40[13]|HTTP response code 40[13]|"
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|PERMISSION_DENIED|UNAUTHENTICATED|"
    r"AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch|InvalidAuthenticationInfo|"
    r"credentials|CredentialsNotLoaded|\b40[13] (Forbidden|Unauthorized)|status: 40[13]",
)
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_UNREACHABLE = re.compile(
    r"NETWORK_CONNECTION|curlCode|[Cc]ouldn't (connect|resolve)|[Cc]onnection (refused|reset|timed out)|timed out|"
    r"REQUEST_TIMEOUT|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|HTTP status 50\d|UNAVAILABLE|DEADLINE_EXCEEDED|"
    r"Name or service not known|error sending request|Could not connect|dns error|Fail to get a new connection",
)

_OF_REQUEST = re.compile(r"\s*\((?:Request|Extended|Host|x-amz)[^()]*\)")
"""What identifies a request for the support of the store."""

_KEYS = {
    "s3": "'s3.access-key-id' and 's3.secret-access-key', as '${NAME}', or the environment variables AWS_ACCESS_KEY_ID "
    "and AWS_SECRET_ACCESS_KEY, or a profile of AWS (AWS_PROFILE)",
    "gs": "'gcs.oauth2.token', as '${NAME}', or the environment variable GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "'adls.account-key' or 'adls.sas-token', as '${NAME}', or the login of Azure's tools",
}


def store_error(url: str, reason: str, what: str | None = None) -> ConnectorError | None:
    """Returns the error for what a library of an object store has said: SS675 where it refuses the credentials, SS676
    where the bucket is missing, SS677 where it does not answer; None for anything else. ``what``: the subject of the
    message; by default the URL.
    """
    subject = what or f'"{url}"'
    scheme = url.partition("://")[0].replace("s3a", "s3")
    detail = f"{_shortened(reason)}."
    if _NO_BUCKET.search(reason):
        hint = "Correct the name of the bucket; the job makes none."
        return ConnectorError(NO_BUCKET, f"the bucket of {subject} does not exist", detail=detail, hint=hint)
    if _DENIED.search(reason):
        keys = _KEYS.get(scheme)
        hint = (
            "Look at the rights of who asks." if keys is None else f"Give keys that may read and write there: {keys}."
        )
        return ConnectorError(DENIED, f"the object store denies access to {subject}", detail=detail, hint=hint)
    if _UNREACHABLE.search(reason):
        hint = 'Look at the network, and at the option "s3.endpoint" or that of your store; then start the job again.'
        return ConnectorError(UNREACHABLE, f"the object store of {subject} does not answer", detail=detail, hint=hint)
    return None


def _shortened(reason: str) -> str:
    """The first line of what a library says, without its own long advice."""
    line = _OF_REQUEST.sub("", reason.partition("\n")[0]).strip().rstrip(".")
    return line if len(line) <= 300 else f"{line[:300]}…"
