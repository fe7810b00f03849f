"""Errors that name no secret, wherever they come from."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.errors import SqlStreamError
from sqlstream.secrets import NO_SECRETS, Secrets


class HiddenError(Exception):
    """An error of other code, with the secrets in its text masked."""


def without_secrets(error: SqlStreamError, secrets: Secrets) -> SqlStreamError:
    """The error, or a copy of the same code with secrets masked if it shows one."""
    return error if secrets == NO_SECRETS else error.with_texts(secrets.hidden)


@contextmanager
def hiding(secrets: Secrets) -> Iterator[None]:
    """A context that masks the secrets in every error raised inside, and in the errors that caused it.

    Spark writes errors of tasks, with all their causes, to its logs.
    """
    try:
        yield
    except Exception as error:
        if not secrets.show_in("".join(traceback.format_exception(error))):
            raise
        if isinstance(error, SqlStreamError):
            raise without_secrets(error, secrets) from None
        raise HiddenError(secrets.hidden(str(error)) or type(error).__name__) from None
