"""Errors that name no secret, wherever they come from."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.errors import SqlStreamError
from sqlstream.secrets import NO_SECRETS, Secrets


class HiddenError(Exception):
    """Replaces an error of foreign code: the same text, with secrets masked."""


def without_secrets(error: SqlStreamError, secrets: Secrets) -> SqlStreamError:
    """The error itself; if its text shows a secret, a copy with the same code and masked text."""
    return error if secrets == NO_SECRETS else error.with_texts(secrets.hidden)


@contextmanager
def hiding(secrets: Secrets) -> Iterator[None]:
    """A context manager that masks the secrets in every error raised inside, and in the causes of that error.

    It is needed because Spark writes errors of tasks, with all their causes, to its logs.
    """
    try:
        yield
    except Exception as error:
        if not secrets.show_in("".join(traceback.format_exception(error))):
            raise
        if isinstance(error, SqlStreamError):
            raise without_secrets(error, secrets) from None
        raise HiddenError(secrets.hidden(str(error)) or type(error).__name__) from None
