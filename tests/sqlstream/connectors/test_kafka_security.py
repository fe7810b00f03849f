"""A broker that asks who connects: by name and password, token or certificate, over TLS; options are Java's."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

import sqlstream
from sqlstream.connectors.kafka.client import check_properties, client_properties
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.offsets import Partition
from sqlstream.testing.kafka_broker import BrokerError, kafka_jars, running_broker
from sqlstream.udfs.kafka import fetch as kafka_fetch
from sqlstream.udfs.kafka import produce as kafka_produce
from sqlstream.udfs.kafka.produce import Destination, SentMessages
from sqlstream.udfs.kafka.transactions import Epoch, EpochTransaction
from tests import token_functions
from tests.server_places import free_ports
from tests.sqlstream.connectors.test_kafka_sink import batch, sent
from tests.sqlstream.connectors.test_kafka_sink_jobs import insert, rows
from tests.sqlstream.connectors.test_kafka_source import Run, Topics, everything

pytestmark = [
    pytest.mark.spark,  # its broker needs Java
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
]
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3cret";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="you" password="pa;ss";'
TOKEN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="someone";'
)
SHORT, SCRIPTED = "tests.token_functions:token", "tests.token_functions:scripted"


def made(folder: Path, name: str, *, signed_by: str | None = None) -> Path:
    """A file of PEM with a key and a certificate for this machine; without ``signed_by`` that of an authority."""
    key, certificate, both = (folder / f"{name}.{suffix}" for suffix in ("key", "crt", "pem"))
    words: list[Any] = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
                        "-out", certificate, "-subj", f"/CN={name}"]  # fmt: skip
    if signed_by is not None:
        words += ["-CA", folder / f"{signed_by}.crt", "-CAkey", folder / f"{signed_by}.key"]
        words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
    subprocess.run(list(map(str, words)), check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return both


@dataclass
class Guarded:
    """The listeners of a broker: an open one of the test's own, one that asks for a login, one for a certificate."""

    topics: Topics
    logins: str
    certificates: str
    folder: Path

    def options(self, address: str, **java: str) -> dict[str, str]:
        """Options of a table. In names ``_`` stands for a dot."""
        given = {
            "properties.bootstrap.servers": address,
            "properties.ssl.truststore.location": str(self.folder / "authority.crt"),
            **{f"properties.{key.replace('_', '.')}": value for key, value in java.items()},
        }
        assert not list(check_properties(given, {}))
        return given

    def login(self, mechanism: str, jaas: str, **more: str) -> dict[str, str]:
        return client_properties(
            self.options(
                self.logins, security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=jaas, **more
            )
        )

    def by_function(self, target: str, who: str) -> dict[str, str]:
        """Options with which a function gives the tokens."""
        return self.options(
            self.logins, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_function=target, sasl_oauthbearer_config=who,
        )  # fmt: skip


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    try:
        kafka_jars()
    except (BrokerError, SqlStreamError) as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("security")
    made(folder, "authority")
    for name in ("broker", "client"):
        made(folder, name, signed_by="authority")
    made(folder, "stranger")
    opened, logins, certificates, controller = free_ports(4)
    listeners = ",".join((
        f"PLAINTEXT://127.0.0.1:{opened}", f"SASL_SSL://127.0.0.1:{logins}", f"SSL://127.0.0.1:{certificates}",
    ))  # fmt: skip
    login = "org.apache.kafka.common.security"
    properties = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "authority.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login}.plain.PlainLoginModule required user_me="s3cret";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms": "2000",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config":
            f'{login}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }  # fmt: skip
    with running_broker(folder / "broker", opened, properties) as broker:
        topics = Topics(broker)
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("you", credential, b"pa;ss")
        topics.admin.alter_user_scram_credentials([change])["you"].result(20)
        yield Guarded(topics, f"127.0.0.1:{logins}", f"127.0.0.1:{certificates}", folder)
        for reader in kafka_fetch._readers.values():
            reader.consumer.close()
        kafka_fetch._readers.clear()
        kafka_produce._senders.clear()


def written_and_read(guarded: Guarded, properties: dict[str, str]) -> list[Any]:
    """What comes back from a topic that is written and read with the properties of librdkafka."""
    topic = guarded.topics.create()
    assert sent(SentMessages(Destination(properties, topic, "default"), True), batch([b"a", b"b"])) == 2
    return everything(guarded.topics.settings(topic, properties=properties))


@pytest.mark.parametrize(("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-512", SCRAM), ("OAUTHBEARER", TOKEN)])
def test_who_logs_in_as_in_java_writes_and_reads(guarded: Guarded, mechanism: str, jaas: str):
    assert written_and_read(guarded, guarded.login(mechanism, jaas)) == [b"a", b"b"]


@pytest.mark.long
def test_who_logs_in_by_a_token_that_expires_writes_transactions_and_commits_offsets(guarded: Guarded):
    token = TOKEN.replace(";", ' unsecuredLoginLifetimeSeconds="2";')
    _go_on_while_tokens_expire(guarded, guarded.login("OAUTHBEARER", token))


def test_a_function_gives_tokens_that_expire_to_who_reads_writes_and_commits(guarded: Guarded):
    _go_on_while_tokens_expire(guarded, client_properties(guarded.by_function(SHORT, "me")))


def _go_on_while_tokens_expire(guarded: Guarded, properties: dict[str, str]) -> None:
    topic = guarded.topics.create()
    settings = guarded.topics.settings(topic, properties=properties, group=topic)
    with closing(Brokers(settings)) as brokers:
        for number, value in enumerate((b"a", b"b")):
            epoch = Epoch(number, "run", "job", first=True)
            assert sent(EpochTransaction(Destination(properties, topic), topic, epoch), batch([value])) == 1
            assert everything(settings) == [b"a", b"b"][: number + 1]
            assert brokers.commit({Partition(topic, 0): number + 1})
            assert [held.committed for held in brokers.held()] == [number + 1]
            time.sleep(3 * (number == 0))


@pytest.mark.long
def test_a_consumer_reads_on_when_the_token_of_a_function_has_expired(guarded: Guarded):
    """The broker ends connections whose token is over."""
    topic, properties = guarded.topics.create(), client_properties(guarded.by_function(SHORT, "reader"))
    run = Run(guarded.topics.settings(topic, properties=properties, stop=None))
    for value, seconds in ((b"a", 4.2), (b"b", 0)):
        guarded.topics.send(topic, value)
        assert run.batch() == [value]
        time.sleep(seconds)


def test_a_function_that_fails_later_is_told_by_a_job_that_runs(guarded: Guarded, monkeypatch: pytest.MonkeyPatch):
    answers: list[Any] = [token_functions.unsecured("me", 60)]
    monkeypatch.setattr(token_functions, "answers", answers)
    topic, properties = guarded.topics.create(), client_properties(guarded.by_function(SCRIPTED, "failing"))
    guarded.topics.send(topic, b"a")
    with closing(Brokers(guarded.topics.settings(topic, properties=properties, stop=None))) as brokers:
        position = brokers.first_position()
        answers.append(RuntimeError("no more"))
        later_s = time.time() + 61
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: later_s)
            with pytest.raises(ConnectorError, match="gives no token for Kafka\\nDETAIL: RuntimeError: no more"):
                brokers.latest(position)


@pytest.mark.long
def test_tables_of_sql_log_in_by_tokens_of_a_function(guarded: Guarded, spark: Any):
    topic = guarded.topics.create()
    given = guarded.by_function(SHORT, "sql") | {
        "connector": "kafka", "topic": topic, "format": "json", "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset", "properties.group.id": topic,
        "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": topic,
    }  # fmt: skip
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    with sqlstream.connect(spark) as session:
        session.sql(f"CREATE TABLE t (i INT) WITH ({options})")
        insert(session, "INSERT INTO t VALUES (1), (2)")
        assert rows(session, "SELECT i FROM t") == [(1,), (2,)]
        shown = str(session.sql("SHOW CREATE TABLE t"))
    assert f"'properties.sasl.oauthbearer.token.function' = '{SHORT}'" in shown
    assert "'properties.sasl.oauthbearer.config' = '******'" in shown


def test_a_certificate_of_one_s_own_is_a_login(guarded: Guarded):
    options = guarded.options(
        guarded.certificates, security_protocol="SSL", ssl_keystore_location=str(guarded.folder / "client.pem")
    )
    assert written_and_read(guarded, client_properties(options)) == [b"a", b"b"]


def test_a_keystore_of_pkcs12_has_a_password(guarded: Guarded):
    store = guarded.folder / "client.p12"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", guarded.folder / "client.pem", "-out", store, "-passout", "pass:x"],
        check=True, capture_output=True,
    )  # fmt: skip
    options = guarded.options(
        guarded.certificates, security_protocol="SSL", ssl_keystore_location=str(store), ssl_keystore_password="x"
    )
    assert written_and_read(guarded, client_properties(options)) == [b"a", b"b"]


def refusal(guarded: Guarded, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sqlstream.sources.kafka.brokers._SECONDS", 3)
    topic = guarded.topics.create()
    with pytest.raises(ConnectorError) as caught:
        everything(guarded.topics.settings(topic, properties=properties))
    return str(caught.value)


def test_a_wrong_login_is_told_without_its_password(guarded: Guarded, monkeypatch: pytest.MonkeyPatch):
    text = refusal(guarded, guarded.login("PLAIN", PLAIN.replace("s3cret", "wr0ng")), monkeypatch)
    assert "SS590: " in text and "refuse the connection: " in text and "uthentication failed" in text
    assert "wr0ng" not in text and "HINT: Look at the options properties.security.protocol" in text


def test_a_certificate_of_an_unknown_authority_is_told(guarded: Guarded, monkeypatch: pytest.MonkeyPatch):
    stranger = str(guarded.folder / "stranger.crt")
    properties = guarded.login("PLAIN", PLAIN) | {"ssl.ca.location": stranger}
    text = refusal(guarded, properties, monkeypatch)
    assert "refuse the connection: " in text and "certificate verify failed" in text
