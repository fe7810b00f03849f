"""Errors that name no secret."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.udfs.hiding import HiddenError, hiding
from sqlstream.udfs.lookup.source import RedactingSource, Request, redacting

SECRETS = Secrets.of(["hunter2"])


def raising(error: Exception, cause: Exception | None = None, secrets: Secrets = SECRETS) -> Exception:
    with pytest.raises(Exception) as raised, hiding(secrets):
        raise error from cause
    return raised.value


def test_errors_of_ours_keep_their_code_and_lose_their_cause():
    actual = raising(ConnectorError("SS575", "no hunter2", detail="hunter2!", hint="hunter2?"), OSError("hunter2"))
    assert str(actual) == "SS575: no ******\nDETAIL: ******!\nHINT: ******?"
    assert "hunter2" not in "".join(traceback.format_exception(actual)).replace("secrets", "")


def test_a_cause_alone_is_dropped_and_a_harmless_one_stays():
    actual = raising(ConnectorError("SS575", "no"), OSError("at hunter2"))
    assert (str(actual), actual.__cause__) == ("SS575: no", None)
    cause = OSError("no route")
    assert raising(ConnectorError("SS575", "no"), cause).__cause__ is cause


def test_errors_of_others_keep_their_text():
    actual = raising(OSError("at hunter2"))
    assert isinstance(actual, HiddenError) and str(actual) == "at ******"
    error = OSError("at hunter2")
    assert raising(error, secrets=NO_SECRETS) is error


class Failing:
    name, request = "t", Request((), ())

    async def open(self):
        return self

    async def ask(self, keys):
        raise OSError("hunter2")

    async def close(self) -> None: ...


def test_lookups_fail_without_secrets():
    async def run() -> None:
        client = await redacting(Failing(), SECRETS).open()
        await client.ask([("k",)])

    with pytest.raises(HiddenError, match=r"^\*{6}$"):
        asyncio.run(run())
    assert not isinstance(redacting(Failing(), NO_SECRETS), RedactingSource)
