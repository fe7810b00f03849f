"""Secrets in texts of others."""

from __future__ import annotations

import base64
import pickle

import pytest

from sqlstream.secrets import NO_SECRETS, Secrets, has_secret_name, shown_script, shown_value


@pytest.mark.parametrize(
    "text",
    ["p@ss/w'd \"1", "p%40ss%2Fw%27d%20%221", "p%40ss%2fw%27d%20%221", "p%40ss%2Fw%27d+%221", "p@ss/w''d \"1",
     "p@ss/w'd \\\"1", "p@ss/w&#x27;d &quot;1", base64.b64encode(b"p@ss/w'd \"1").decode()],
)  # fmt: skip
def test_a_secret_is_hidden_however_it_is_spelled(text: str):
    secrets = Secrets.of(["p@ss/w'd \"1"])
    assert secrets.hidden(f"no user <{text}>") == "no user <******>"
    assert secrets.show_in(text) and not secrets.show_in("something else")


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("Bearer abcd", "bad abcd", "bad ******"),
        ("sid=abcd; x=1", "session abcd", "session ******"),
        ("me:hunter2", "no hunter2", "no ******"),
        ('required password="hunter2";', "no hunter2", "no ******"),
        ("-----\nMIIE\n-----", "key MIIE", "key ******"),
        ("plane", "table planes, a plane, %2Fplane", "table planes, a ******, %2F******"),
        ("longer-one", "xlonger-oney", "x******y"),
        ("json", "json", "json"),
        ("80", "port 80", "port 80"),
    ],
)
def test_parts_of_secrets_are_hidden_and_parts_of_words_stay(secret: str, text: str, shown: str):
    assert Secrets.of([secret]).hidden(text) == shown


def test_secrets_travel_and_do_not_show():
    secrets = Secrets.of(["hunter2"]) + Secrets.of(["s3cr3t"])
    assert pickle.loads(pickle.dumps(secrets)) == secrets
    assert repr(secrets) == "Secrets()"
    assert secrets.hidden("hunter2 s3cr3t") == "****** ******"
    assert NO_SECRETS.hidden("hunter2") == "hunter2" and Secrets.of([""]) == NO_SECRETS


def test_a_script_keeps_its_length():
    text = """WITH ('password' = 'it''s', "auth.token" = "x\\"y", 'format' = 'json', 'k' = 'a\nb')"""
    assert (
        shown_script(text) == """WITH ('password' = '*****', "auth.token" = "****", 'format' = 'json', 'k' = '*\n*')"""
    )


def test_a_function_that_gives_tokens_is_named_and_a_token_in_its_place_is_not():
    key = "properties.sasl.oauthbearer.token.function"
    assert shown_value(key, "my.module:token") == "my.module:token" and not has_secret_name(key)
    assert shown_value(key, "eyJhbGciOi.eyJzdWIi.c2ln") == "******"
    assert shown_script(f"WITH ('{key}' = 'my.module:token')") == f"WITH ('{key}' = 'my.module:token')"
    text = f"WITH ('{key}' = 'my.module:token', 'format' = 'json', 'properties.sasl.oauthbearer.config' = 'hunter2')"
    assert shown_script(text) == text.replace("hunter2", "*******")
    assert "eyJ" not in shown_script(f"WITH ('{key}' = 'eyJhbGciOi.eyJzdWIi.c2ln')")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (
            "lineage.openlineage.kafka.properties",
            "security.protocol=SASL_SSL;sasl.password=hunter2;ssl.key.pem=abc;client.id=me;sasl.jaas.config=${JAAS}",
            "security.protocol=SASL_SSL;sasl.password=******;ssl.key.pem=******;client.id=me;sasl.jaas.config=${JAAS}",
        ),
        ("table.note", "user=me;password=hunter2", "user=me;password=******"),
        ("table.note", "user = me password = 'a b' host=h", "user = me password = ****** host=h"),
    ],
)
def test_secrets_among_pairs_are_hidden_wherever_they_stand(key: str, value: str, shown: str):
    assert shown_value(key, value) == shown
