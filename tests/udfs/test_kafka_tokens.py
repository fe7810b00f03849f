"""Tokens for Kafka that a function of the user gives, without a broker."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.udfs.kafka import tokens
from sqlstream.udfs.kafka.admin import admin_of
from sqlstream.udfs.kafka.clients import consumer_of
from sqlstream.udfs.kafka.produce import producer_of
from sqlstream.udfs.kafka.tokens import FOLDER, FUNCTION, TokenSource, located, require_token, with_tokens
from tests import token_functions

SCRIPTED = "tests.token_functions:scripted"
PROPERTIES = {
    "bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
    FUNCTION: SCRIPTED, "sasl.oauthbearer.config": "scope=all secret=hunter2",
}  # fmt: skip


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(tokens, "_sources", {})
    monkeypatch.setattr(token_functions, "asked", [])
    answers: list[Any] = []
    monkeypatch.setattr(token_functions, "answers", answers)
    return answers


def test_properties_without_a_function_are_those_of_librdkafka():
    assert with_tokens({"client.id": "c"}) == {"client.id": "c"}
    require_token({"client.id": "c"})


def test_all_clients_of_a_process_log_in_by_one_token(scripted: list[Any]):
    scripted.append(("t", time.time() + 60, "me", {"a": "b"}))
    settings = with_tokens(PROPERTIES)
    assert settings["oauth_cb"](None) == with_tokens(PROPERTIES)["oauth_cb"](None)
    assert settings["oauth_cb"](None)[::2] == ("t", "me")
    assert not {*settings} & {FUNCTION, "sasl.oauthbearer.config"}
    assert token_functions.asked == ["scope=all secret=hunter2"]


def test_a_token_is_renewed_when_four_fifths_of_its_time_are_over(scripted: list[Any], monkeypatch: pytest.MonkeyPatch):
    source, now = TokenSource(SCRIPTED, ""), 1_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    scripted += [("first", 1_100.0), ("second", 1_200.0)]
    assert source.token().text == "first"
    now = 1_079.0
    assert source.token().text == "first"
    now = 1_081.0
    assert source.token().text == "second"


def test_a_token_that_cannot_be_renewed_is_used_until_it_expires(
    scripted: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    source, now = TokenSource(SCRIPTED, ""), 1_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    scripted += [("first", 1_100.0), OSError("away"), OSError("still away"), ("second", 1_200.0)]
    source.token()
    now = 1_090.0
    with caplog.at_level(logging.WARNING, "sqlstream.kafka"):
        assert source.token().text == "first"
    assert "valid for 10 s" in caplog.text and "OSError: away" in caplog.text
    now = 1_101.0
    with pytest.raises(ConnectorError, match=r"SS559: function .*scripted\" gives no token for Kafka"):
        source.given()
    assert source.token().text == "second"


@pytest.mark.parametrize("client", [consumer_of, producer_of, lambda properties: admin_of(None, properties)])
def test_a_function_that_fails_is_named_before_a_client_is_made(client: Any, scripted: list[Any]):
    scripted.append(PermissionError("no scope=all secret=hunter2 here"))
    begun = time.monotonic()
    with pytest.raises(ConnectorError) as caught:
        client(PROPERTIES)
    assert time.monotonic() - begun < 5, "librdkafka's binding waits for ten seconds"
    assert str(caught.value) == (
        'SS559: function "tests.token_functions:scripted" gives no token for Kafka\n'
        "DETAIL: PermissionError: no ****** here (token_functions.py, line 34)\n"
        "HINT: It is the option 'properties.sasl.oauthbearer.token.function' of the table."
    )
    assert caught.value.__cause__ is None, "it has the secret"


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ("s3cret", "What it returns is of the type str."),
        (None, "What it returns is of the type NoneType."),
        (("s3cret",), "What it returns has other parts."),
        ((b"s3cret", 1e10), "What it returns does not begin with a token."),
        (("", 1e10), "What it returns does not begin with a token."),
        (("s3cret", "soon"), "What it returns has no number as its time."),
        (("s3cret", 1e10 * 1000), "What it returns has a time in milliseconds."),
        (("s3cret", 1e9), "What it returns is a token that has expired."),
        (("s3cret", 1e10, None), "What it returns has other parts."),
        (("s3cret", 1e10, "me", {"a": 1}), "What it returns has other parts."),
        (("s3cret", 1e10, "me", {}, 5), "What it returns has other parts."),
    ],
)
def test_what_is_no_token_is_told_without_it(answer: Any, detail: str, scripted: list[Any]):
    scripted.append(answer)
    with pytest.raises(ConnectorError) as caught:
        require_token(PROPERTIES)
    assert f"DETAIL: {detail}\nHINT: It returns (token, time)" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_module_is_found_where_the_driver_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Tasks run in processes that do not look beside the script."""
    (tmp_path / "tokens_beside_the_script.py").write_text("def token(config): return config, 1e10")
    given = {FUNCTION: "tokens_beside_the_script:token"}
    with monkeypatch.context() as driver:
        driver.syspath_prepend(tmp_path)
        found = located(given[FUNCTION])
    assert found == given | {FOLDER: str(tmp_path)} and located("no_such_module:token") == {
        FUNCTION: "no_such_module:token"
    }
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert with_tokens(PROPERTIES | found)["oauth_cb"](None)[0] == "scope=all secret=hunter2"
    assert not {*with_tokens(PROPERTIES | found)} & {FUNCTION, FOLDER}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:token", 'SS552: module "no_such_module" of function "no_such_module:token" not found'),
        ("tests.token_functions:tokn", 'SS553: "tokn" of function "tests.token_functions:tokn" does not exist'),
    ],
)
def test_a_function_that_is_not_there_is_told(target: str, message: str):
    with pytest.raises(ConnectorError) as caught:
        require_token(PROPERTIES | {FUNCTION: target})
    assert str(caught.value).startswith(message)
