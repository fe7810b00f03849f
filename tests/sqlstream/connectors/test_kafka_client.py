"""Java's properties as librdkafka's, and positions in topics, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.kafka.client import check_properties, client_properties
from sqlstream.errors import ConnectorError
from sqlstream.sources.kafka.offsets import (
    Partition,
    Position,
    TopicSettings,
    ranges,
    shared_out,
    specific_offsets,
)
from sqlstream.udfs.kafka.clients import consumer_of

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b;c";'
TOKEN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required\n"
    ' clientId=\'x\' clientId="id" clientSecret=s3cret scope="all";'
)


def properties(**given: str) -> dict[str, str]:
    """In the names of options ``_`` stands for a dot."""
    return {f"properties.{key.replace('_', '.')}": value for key, value in given.items()}


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"sasl_jaas_config": PLAIN}, {"sasl.username": "me", "sasl.password": 'a"b;c'}),
        (
            {"sasl_jaas_config": TOKEN},
            {
                "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "s3cret", "sasl.oauthbearer.scope": "all",
            },
        ),
        (
            {"sasl_jaas_config": "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=me"
             ' unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_tenant=a;'},
            {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=me lifeSeconds=60 extension_tenant=a",
            },
        ),
        (
            {"sasl_jaas_config": "a.b.ScramLoginModule REQUIRED username='a b' password='x\"y;' ;"},
            {"sasl.username": "a b", "sasl.password": 'x"y;'},
        ),
        (
            {
                "sasl_jaas_config": 'OAuthBearerLoginModule required clientId="i" clientSecret="s"'
                ' extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";',
                "sasl_oauthbearer_token_endpoint_url": "https://h/t",
                "sasl_login_callback_handler_class": "org.apache.kafka.common.security.oauthbearer.secured."
                "OAuthBearerLoginCallbackHandler",
            },
            {
                "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "i",
                "sasl.oauthbearer.client.secret": "s", "sasl.oauthbearer.token.endpoint.url": "https://h/t",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            },
        ),
        (
            {
                "sasl_jaas_config": "OAuthBearerLoginModule required;",
                "sasl_oauthbearer_token_endpoint_url": "https://h/t",
                "sasl_oauthbearer_client_credentials_client_id": "i",
            },
            {
                "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "https://h/t",
                "sasl.oauthbearer.client.credentials.client.id": "i",
            },
        ),
        ({"ssl_truststore_location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl_truststore_location": "/ca", "ssl_truststore_type": "PEM"}, {"ssl.ca.location": "/ca"}),
        (
            {"ssl_keystore_location": "/k.p12", "ssl_keystore_password": "p"},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"ssl_keystore_location": "/k.pem", "ssl_key_password": "p"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem", "ssl.key.password": "p"},
        ),
        ({"ssl_endpoint_identification_algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"fetch_max_wait_ms": "5", "request_timeout_ms": "5000"},
            {"fetch.wait.max.ms": "5", "socket.timeout.ms": "5000"},
        ),
        ({"group_id": "g", "auto_offset_reset": "latest", "client_id": "c"}, {"client.id": "c"}),
        ({"commit_offsets_on_checkpoint": "false", "client_id_prefix": "c"}, {"client.id": "c"}),
    ],
)  # fmt: skip
def test_properties_of_java_become_those_of_librdkafka(java: dict[str, str], expected: dict[str, str]):
    assert list(check_properties(properties(**java), {})) == []
    translated = client_properties(properties(**java))
    assert translated == expected
    known = {k: v for k, v in translated.items() if not k.endswith("location")}  # there are no such files
    Consumer({**known, "group.id": "g"}).close()


@pytest.mark.parametrize(
    ("java", "hint"),
    [
        ({"ssl_truststore_location": "/s.jks"}, "It reads no JKS here: convert the file to PEM (keytool"),
        ({"ssl_truststore_location": "/s.p12"}, "It reads no PKCS12 here: convert the file to PEM (keytool"),
        ({"ssl_keystore_location": "/s"}, "It reads no JKS here: convert the file to PEM or PKCS12"),
        ({"ssl_truststore_location": "/s.pem", "ssl_truststore_password": "p"}, "Files of PEM have none"),
        ({"max_poll_records": "5"}, "Write 'source.max-rows-per-trigger'."),
        (
            {"sasl_jaas_config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "with one of PlainLoginModule",
        ),
        ({"sasl_jaas_config": "PlainLoginModule required username='me';"}, "with one of PlainLoginModule"),
        ({"sasl_jaas_config": 'PlainLoginModule required username="a" password="b'}, "with one of PlainLoginModule"),
        (
            {"sasl_jaas_config": "ScramLoginModule required username=a password=b tokenauth=true;"},
            "with one of PlainLoginModule",
        ),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "Leave it out: versions are negotiated"),
        ({"sasl_login_refresh_window_factor": "0.8"}, "Leave it out: librdkafka logs in again by itself."),
        (
            {"sasl_login_callback_handler_class": "my.Handler"},
            "Name a function of Python that gives tokens in 'properties.sasl.oauth",
        ),
    ],
)
def test_properties_without_a_counterpart_are_refused_with_what_to_write(java: dict[str, str], hint: str):
    (wrong,) = check_properties(properties(**java), {})
    assert wrong.code == "SS504"
    assert wrong.hint is not None
    assert hint in wrong.hint


TOKENS = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_function": "my.module:token"}


def test_a_function_that_gives_tokens_is_a_property():
    assert list(check_properties(properties(**TOKENS), {})) == []
    assert client_properties(properties(**TOKENS))["sasl.oauthbearer.token.function"] == "my.module:token"


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ({"sasl_mechanism": "PLAIN"}, "needs 'properties.sasl.mechanism' = 'OAUTHBEARER'"),
        ({"sasl_jaas_config": TOKEN}, '"properties.sasl.jaas.config" both say where tokens are from'),
        (
            {"sasl_oauthbearer_token_endpoint_url": "https://h/t"},
            '"properties.sasl.oauthbearer.token.endpoint.url" both say where tokens are from',
        ),
    ],
)
def test_what_does_not_go_with_a_function_that_gives_tokens_is_refused(java: dict[str, str], message: str):
    (wrong,) = check_properties(properties(**{**TOKENS, **java}), {})
    assert message in wrong.message


def test_a_login_without_a_mechanism_says_what_is_missing():
    with pytest.raises(ConnectorError, match="No provider for SASL mechanism GSSAPI") as caught:
        consumer_of(client_properties(properties(bootstrap_servers="h:1", security_protocol="SASL_SSL")))
    assert "Add 'properties.sasl.mechanism' = 'PLAIN', 'SCRAM-SHA-512' or 'OAUTHBEARER'" in str(caught.value)


def test_a_login_is_checked_again_when_its_variables_are_known():
    assert list(check_properties({"properties.sasl.jaas.config": "${LOGIN}"}, {})) == []
    with pytest.raises(ConnectorError, match="is no login that librdkafka has"):
        client_properties({"properties.sasl.jaas.config": "nonsense"})


def test_settings_hide_their_properties():
    given: Any = dict.fromkeys(TopicSettings.__dataclass_fields__)
    assert "hunter2" not in repr(TopicSettings(**{**given, "properties": {"sasl.password": "hunter2"}}))


@pytest.mark.parametrize("text", ["", "partition:0", "partition:0,offset:-1", "0:1", "partition:0,offset:x",
                                  "partition:0,offset:1;partition:0,offset:2"])  # fmt: skip
def test_offsets_that_cannot_be_read_are_refused(text: str):
    with pytest.raises(ValueError):
        specific_offsets(text)


def test_offsets_are_spelled_as_in_flink():
    assert specific_offsets("partition:0,offset:42; partition:1, offset:300;") == {0: 42, 1: 300}


PARTITIONS = st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 2))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 50))


@given(OFFSETS, st.dictionaries(PARTITIONS, st.integers(0, 99)), st.none() | OFFSETS, st.integers(1, 40))
def test_micro_batches_reach_the_end_and_read_nothing_twice(begin: Any, latest: Any, stop: Any, most: int):
    position, read = Position(begin, stop), []
    begun = {p: 0 for p in latest if p not in begin} if stop is None else {}
    for _ in range(400):
        after = Position.of_json(position.advanced(latest, most, begun).to_json())
        batch = ranges(position, after)
        assert sum(r.end - r.begin for r in batch) <= most + len(after.next)
        assert sorted(r for share in shared_out(batch, 3) for r in share) == sorted(batch)
        read += [(r.partition, offset) for r in batch for offset in range(r.begin, r.end)]
        position, begun = after, {}
    ends = {p: end if stop is None else min(end, stop.get(p, 0)) for p, end in latest.items()}
    expected = [
        (p, offset) for p, end in ends.items() if stop is None or p in begin for offset in range(begin.get(p, 0), end)
    ]
    assert sorted(read) == sorted(expected)
    assert position.advanced(latest, most, {}) is position
