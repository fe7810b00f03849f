"""Every place where a statement may hold a secret, and every output that could show it.

A place is an option of a connector and a way of writing a secret there. Each is created, shown, explained, planned and
recorded as by a job, met by mistakes, and repeated by a server; no text that comes out may hold the secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

import sqlstream
from sqlstream import connectors
from sqlstream.connectors.schema_formats import REGISTERED
from sqlstream.connectors.secrets import secrets_of_plan
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.jobs.checkpoints.fingerprint import fingerprint, to_text
from sqlstream.jobs.lifecycle.specification import description_of
from sqlstream.planner.explain import formats_of
from sqlstream.planner.node import Node
from sqlstream.plans import plan_of
from sqlstream.results import Rows
from sqlstream.secrets import is_known, shown_value
from sqlstream.session import Session
from sqlstream.shell.line_editor import HistoryWithoutSecrets
from sqlstream.udfs.hiding import hiding
from tests.planner.plans import physical

pytestmark = pytest.mark.spark

BASE: dict[str, dict[str, str]] = {
    "http": {"url": "https://api.test/items/{k}"},
    "postgres": {"url": "postgresql://db.test/shop", "table-name": "items"},
    "postgres-cdc": {"url": "postgresql://db.test/shop", "table-name": "items", "slot.name": "items"},
    "mysql-cdc": {
        "hostname": "db.test",
        "database-name": "shop",
        "table-name": "items",
        "username": "me",
        "password": "p",
    },
    "jdbc": {"url": "jdbc:postgresql://db.test/shop", "table-name": "items"},
    "redis": {"url": "redis://cache.test:6379/0", "key": "item:{k}"},
    "kafka": {"topic": "items", "properties.bootstrap.servers": "broker.test:9092", "format": "json"},
    "filesystem": {"path": "/data/items", "format": "json"},
    "delta": {"path": "/data/items"},
    "iceberg": {"table-name": "shop.items", "catalog.uri": "https://catalog.test"},
    "sqlite": {"path": "/data/items.db", "table-name": "items"},
    "duckdb": {"path": "/data/items.db", "table-name": "items"},
    "socket": {"hostname": "lines.test", "port": "9999", "format": "json"},
}
LOOKED_UP = ("http", "postgres", "jdbc", "redis", "sqlite", "duckdb")


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True)
class Place:
    """``tells``: the secret, and other forms and parts of it that no output may hold. ``variables`` are those of the
    environment.
    """

    connector: str
    options: Mapping[str, str]
    tells: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def create(self) -> str:
        options = {"connector": self.connector, **BASE[self.connector], **self.options}
        if "host" in self.options:
            del options["url"]
        listed = ", ".join(f"'{key}' = {literal(value)}" for key, value in options.items())
        key = ", PRIMARY KEY (k) NOT ENFORCED" if self.connector.endswith("-cdc") else ""
        return f"CREATE TABLE t (k STRING, v STRING{key}) WITH ({listed})"

    @property
    def statement(self) -> str:
        if self.connector in LOOKED_UP:
            return "INSERT INTO gone SELECT e.k, t.v FROM events AS e JOIN t FOR SYSTEM_TIME AS OF e.pt ON t.k = e.k"
        return "INSERT INTO gone SELECT k, v FROM t"

    def __str__(self) -> str:
        return f"{self.connector}-{'-'.join(self.options)}-{self.tells[0]}"


def http(key: str, value: str, *tells: str) -> Place:
    return Place("http", {"method": "POST", key: value} if key == "body" else {key: value}, tells or (value,))


def variable(connector: str, key: str, value: str, secret: str) -> Place:
    return Place(connector, {key: value}, (secret,), {"SECRET": secret})


PLACES = (
    # headers
    http("headers.Authorization", "Bearer tok-4711"),
    http("headers.X-Api-Key", "key-4711"),
    http("headers.Cookie", "sid=tok-4711; theme=dark", "tok-4711"),
    http("headers.X-Auth", "tok-4711"),
    http("headers.Ocp-Apim-Subscription-Key", "key-4711"),
    http("headers.X-Signature", "sha256=5f4dcc3b", "5f4dcc3b"),
    http("headers.X-Client", "tok-4711"),
    http("headers.Proxy-Authorization", "Basic bWU6c2VjcmV0"),
    http("auth.token", "tok-4711"),
    Place("http", {"auth.username": "sk_live_4711", "auth.password": ""}, ("sk_live_4711",)),
    Place("http", {"auth.username": "me", "auth.password": "hunter2"}, ("hunter2", "bWU6aHVudGVyMg==")),
    # users of URLs
    http("url", "https://me:hunter2@api.test/{k}", "hunter2"),
    http("url", "https://me:hun@ter2@api.test/{k}", "hun@ter2", "ter2"),
    http("url", "https://me:hun/ter2@api.test/{k}", "hun/ter2", "ter2"),
    http("url", "https://me:hunt%2Fer2@api.test/{k}", "hunt%2Fer2", "hunt/er2"),
    http("url", "https://ghp_4711@api.test/{k}", "ghp_4711"),
    http("url", "https://sk_live_4711:@api.test/{k}", "sk_live_4711"),
    # queries and fragments
    http("url", "https://api.test/{k}?key=AIza4711", "AIza4711"),
    http("url", "https://api.test/{k}?sv=2024&sig=a%2Fb%3D4711", "a%2Fb%3D4711", "a/b=4711"),
    http("url", "https://api.test/{k}?X-Amz-Signature=5f4dcc3b&X-Amz-Date=1", "5f4dcc3b"),
    http("url", "https://api.test/{k}?pwd=hunter2", "hunter2"),
    http("url", "https://api.test/{k}?passwd=hunter2&limit=1", "hunter2"),
    http("url", "https://api.test/{k}?auth=hunter2", "hunter2"),
    http("url", "https://api.test/{k}?TOKEN=hunter2", "hunter2"),
    http("url", "https://api.test/{k}?hunter2", "hunter2"),
    http("url", "https://api.test/{k}?whatever=hunter2", "hunter2"),
    http("url", "https://api.test/{k}/x;jsessionid=hunter2", "hunter2"),
    http("url", "https://api.test/{k}#hunter2", "hunter2"),
    http("batch.url", "https://api.test/all?key=AIza4711&ids={keys}", "AIza4711"),
    # bodies
    http("body", '{"k": {k}, "api_key": "AIza4711"}', "AIza4711"),
    http("body", '{"k": {k}, "deep": [{"pin": 471147}]}', "471147"),
    http("body", '{"k": "{k} hunter2"}', "hunter2"),
    http("batch.body", '{"ids": {keys}, "auth": {"t": "hun\\"ter2"}}', 'hun"ter2', 'hun\\"ter2'),
    # databases
    Place("postgres", {"password": "hunter2"}, ("hunter2",)),
    Place("delta", {"storage.aws_secret_access_key": "hunter2"}, ("hunter2",)),
    Place("delta", {"storage.account_key": "hunter2", "path": "abfss://c@a.test/t"}, ("hunter2",)),
    Place(
        "delta",
        {"path": "s3://b/t", "s3.access-key-id": "AKIA4711", "s3.secret-access-key": "hunter2"},
        ("hunter2", "AKIA4711"),
    ),
    Place("iceberg", {"s3.access-key-id": "AKIA4711", "s3.secret-access-key": "hunter2"}, ("hunter2", "AKIA4711")),
    Place("iceberg", {"catalog.token": "hunter2"}, ("hunter2",)),
    Place("iceberg", {"catalog.s3.secret-access-key": "hunter2"}, ("hunter2",)),
    Place("iceberg", {"catalog.uri": "postgresql://me:hunter2@db.test/catalog"}, ("hunter2",)),
    Place("iceberg", {"catalog.warehouse": "s3://me:hunter2@bucket/items"}, ("hunter2",)),
    Place("delta", {"path": "https://me:hunter2@files.test/items"}, ("hunter2",)),
    Place("postgres", {"url": "postgresql://me:hunter2@db.test/shop"}, ("hunter2",)),
    Place("postgres", {"url": "postgresql://me:hun@ter2@db.test/shop"}, ("hun@ter2", "ter2")),
    Place("postgres", {"url": "postgresql://me:hun/ter2@db.test/shop"}, ("hun/ter2", "ter2")),
    Place("postgres", {"url": "postgresql://me:hunt#er2@db.test/shop"}, ("hunt#er2", "er2")),
    Place("postgres", {"url": "postgresql://tok_4711@db.test/shop"}, ("tok_4711",)),
    Place("postgres", {"url": "postgresql://db.test/shop?user=me&password=hunter2"}, ("hunter2",)),
    Place("postgres", {"url": "postgresql://db.test/shop?sslpassword=hunter2"}, ("hunter2",)),
    Place("postgres", {"host": "db.test", "database": "shop", "password": "hunter2"}, ("hunter2",)),
    Place("postgres-cdc", {"password": "hunter2"}, ("hunter2",)),
    Place("postgres-cdc", {"url": "postgresql://me:hunter2@db.test/shop"}, ("hunter2",)),
    Place("mysql-cdc", {"password": "hunter2"}, ("hunter2",)),
    Place("jdbc", {"url": "jdbc:postgresql://db.test/shop?user=me&password=hunter2"}, ("hunter2",)),
    Place("jdbc", {"password": "it's hunter2"}, ("it's hunter2", "it''s hunter2")),
    Place("redis", {"password": "hunter2"}, ("hunter2",)),
    Place("redis", {"url": "redis://:hunter2@cache.test/0"}, ("hunter2",)),
    Place("redis", {"url": "redis://me:hun@ter2@cache.test/0"}, ("hun@ter2", "ter2")),
    Place("redis", {"url": "rediss://me:hun/ter2@cache.test/0"}, ("hun/ter2", "ter2")),
    Place("redis", {"url": "redis://me:hunt?er2@cache.test/0"}, ("hunt?er2", "er2")),
    Place("redis", {"url": "redis://tok_4711@cache.test/0"}, ("tok_4711",)),
    Place("redis", {"url": "redis://cache.test/0?password=hunter2"}, ("hunter2",)),
    # users whose host was forgotten, and hosts that are users
    Place("postgres", {"url": "postgresql://me:hunter2/shop"}, ("hunter2",)),
    Place("postgres", {"url": "postgresql://me:hun,ter2"}, ("hun,ter2", "ter2")),
    Place("postgres", {"host": "me:hunter2@db.test", "database": "shop"}, ("hunter2",)),
    Place("redis", {"url": "redis://me:hunter2"}, ("hunter2",)),
    Place("redis", {"url": "redis://me:hun/ter2/0"}, ("hun/ter2", "ter2")),
    Place("redis", {"url": "redis://cache.test/0?password=hun@ter2"}, ("hun@ter2", "ter2")),
    Place("redis", {"host": "me:hunter2@cache.test"}, ("hunter2",)),
    Place("socket", {"hostname": "hunter2@cache.test"}, ("hunter2",)),
    variable("postgres", "url", "postgresql://me:${SECRET}/shop", "hun,ter2"),
    # Kafka
    Place("kafka", {"properties.sasl.password": "hunter2"}, ("hunter2",)),
    Place(
        "kafka",
        {"properties.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hunter2";'},
        ("hunter2",),
    ),
    Place(
        "kafka", {"properties.ssl.keystore.key": "-----BEGIN KEY-----\nMIIEvgIBADANBg\n-----END"}, ("MIIEvgIBADANBg",)
    ),
    Place("kafka", {"properties.ssl.key.password": "hunter2"}, ("hunter2",)),
    Place("kafka", {"properties.basic.auth.user.info": "me:hunter2"}, ("hunter2",)),
    Place("kafka", {"properties.schema.registry.url": "https://me:hunter2@registry.test"}, ("hunter2",)),
    Place("kafka", {"properties.anything": "hunter2"}, ("hunter2",)),
    # files
    Place(
        "filesystem",
        {"path": "s3://b/x", "s3.access-key-id": "AKIA4711", "s3.secret-access-key": "hunter2"},
        ("hunter2", "AKIA4711"),
    ),
    Place("filesystem", {"path": "abfss://c@a.dfs.test/x", "adls.sas-token": "hunter2"}, ("hunter2",)),
    Place("filesystem", {"path": "s3a://AKIA4711:sec/ret+4711@bucket/items"}, ("sec/ret+4711", "ret+4711", "AKIA4711")),
    Place("filesystem", {"path": "https://a.blob.test/c?sv=2024&sig=a%2Fb4711"}, ("a%2Fb4711", "a/b4711")),
    Place("filesystem", {"path": "abfss://c@a.dfs.test/items?sv=2024&sig=a%2Fb4711"}, ("a%2Fb4711", "a/b4711")),
    # variables, wherever they stand
    variable("http", "headers.User-Agent", "${SECRET}", "agent-4711"),
    variable("http", "url", "https://${SECRET}/x/{k}", "host-4711.test"),
    variable("http", "url", "https://api.test/bot${SECRET}/{k}", "path-4711"),
    variable("http", "url", "https://api.test/{k}?limit=${SECRET}", "limit-4711"),
    variable("http", "batch.body", '{"ids": {keys}, "limit": "${SECRET}"}', "limit-4711"),
    variable("postgres", "url", "${SECRET}", "postgresql://me:hunter2@db.test/shop"),
    variable("postgres", "url", "postgresql://me:${SECRET}@db.test/shop", "p/w@4711"),
    variable("postgres", "username", "${SECRET}", "user-4711"),
    variable("postgres-cdc", "username", "${SECRET}", "user-4711"),
    variable("mysql-cdc", "password", "${SECRET}", "user-4711"),
    variable("redis", "url", "redis://:${SECRET}@cache.test/0", "p@ss/4711"),
    variable("kafka", "properties.bootstrap.servers", "${SECRET}", "broker-4711.test:9092"),
    variable("kafka", "properties.sasl.jaas.config", 'x required password="${SECRET}";', "hunt er2"),
    variable("sqlite", "path", "/data/${SECRET}.db", "customer-4711"),
    variable("duckdb", "path", "/data/${SECRET}.db", "customer-4711"),
)


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> Iterator[Session]:
    with sqlstream.connect(spark) as own_session:
        own_session.sql("CREATE TABLE events (k STRING, pt AS PROCTIME()) WITH ('connector' = 'datagen')")
        own_session.sql("CREATE TABLE gone (k STRING, v STRING) WITH ('connector' = 'blackhole')")
        yield own_session


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_no_output_shows_a_secret(place: Place, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    outputs = {**of_mistakes(place, session), **of_the_shell(place, tmp_path)}
    session.sql(place.create)
    plan = planned(place.statement, session)
    outputs |= {**of_statements(place, session), **of_plans(place, plan, session), **of_servers(place, plan)}
    spelled = {form for secret in place.tells for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])}
    assert {name for name, text in outputs.items() if any(form in text for form in spelled)} == set()


def planned(statement: str, session: Session) -> Node:
    (parsed,) = parse_script(statement)
    return plan_of(parsed, session.workspace)  # type: ignore[arg-type]


def of_statements(place: Place, session: Session) -> dict[str, str]:
    """What is printed for whoever looks at the table and at its plans."""
    asked = ("SHOW CREATE TABLE t", "DESCRIBE t", f"EXPLAIN {place.statement}")
    collected = {text: shown(session, text) for text in asked}
    for stage in ("OPTIMIZED", "TRACE"):  # the last one has all steps
        for format in formats_of(stage):  # noqa: A001
            collected[f"{stage} {format}"] = session.explain(place.statement, format, stage)
    return {**collected, "PHYSICAL": session.explain(place.statement, stage="physical")}


def shown(session: Session, text: str) -> str:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return "\n".join(" | ".join(map(str, row)) for row in result.fetchall())


def of_plans(place: Place, plan: Node, session: Session) -> dict[str, str]:
    """What a job writes into its checkpoint, and what its parts are called in logs."""
    description = description_of(plan, place.statement, session.workspace.settings)
    table = session.workspace.catalog.relation("t")
    return {
        "plan.json": to_text(fingerprint(physical(plan))),
        "job.json": json.dumps(asdict(description), ensure_ascii=False),
        "repr of plan": repr(plan),
        "repr of table": repr(table),
        "repr of secrets": repr(secrets_of_plan(plan)),
    }


def of_servers(place: Place, plan: Node) -> dict[str, str]:
    """Messages of others that repeat a secret, as they come, in a URL and in JSON; and what caused them."""
    collected = {}
    for secret in place.tells[:1]:
        for how, text in {
            "plain": secret,
            "URL": quote(secret, safe=""),
            "JSON": json.dumps({"error": secret}),
        }.items():
            with pytest.raises(ConnectorError) as raised, hiding(secrets_of_plan(plan)):
                try:
                    raise OSError(f"no such key: {text}")
                except OSError as error:
                    raise ConnectorError("SS575", f"the server says {error}", hint=text) from error
            collected[f"server {how}"] = f"{raised.value} {raised.value.__cause__}"
    return collected


def of_mistakes(place: Place, session: Session) -> dict[str, str]:
    """Messages show the line of a mistake, with all that stands beside it."""
    unknown = f"{place.create[:-1]}, 'nonsense' = {literal(place.tells[0])})"
    broken = f"{place.create} WITH"
    collected = {f"check {text[-10:]}": diagnostics(session, text) for text in (unknown, broken)}
    with pytest.raises(SqlStreamError) as raised:
        session.sql(unknown)
    return {**collected, "mistake": str(raised.value), "repr of mistake": repr(raised.value.diagnostics)}


def diagnostics(session: Session, text: str) -> str:
    mistakes = session.check(text)
    assert mistakes
    return "\n".join(d.render() for d in mistakes)


def of_the_shell(place: Place, tmp_path: Path) -> dict[str, str]:
    history = tmp_path / "history"
    HistoryWithoutSecrets(str(history)).store_string(f"{place.create};")
    HistoryWithoutSecrets(str(history)).store_string("SELECT 1;")
    return {"history": history.read_text()}


# --- what stays readable --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connector", "options"),
    [
        ("http", {"url": "https://api.test:8080/items/{k}?id={k}&limit=3&format=json", "headers.Accept": "text/json"}),
        ("http", {"headers.X-Api-Key": "${KEY}", "auth.token": "${TOKEN}", "url": "https://${HOST}/{k}?key=${KEY}"}),
        ("http", {"method": "POST", "body": '{"id": {k}, "q": "{k}", "limit": 3, "none": null, "t": "${T}"}'}),
        ("http", {"url": "https://api.test/users/@me/{k}"}),
        ("postgres", {"url": "postgresql://db.test:5432/shop?sslmode=require", "username": "me", "password": "${PW}"}),
        ("redis", {"url": "redis://me:${PW}@cache.test:6379/0"}),
        (
            "kafka",
            {"properties.group.id": "g", "properties.security.protocol": "SASL_SSL", "properties.linger.ms": "5"},
        ),
        ("filesystem", {"path": "abfss://container@account.dfs.test/items", "source.monitor-interval": "1 s"}),
        ("filesystem", {"path": "s3a://bucket/items-?.json"}),
        ("socket", {"hostname": "h.test"}),
    ],
)
def test_what_is_harmless_is_shown(connector: str, options: dict[str, str], session: Session):
    session.sql(Place(connector, options, ()).create)
    text = shown(session, "SHOW CREATE TABLE t")
    assert [key for key, value in options.items() if f"'{key}' = '{value}'" not in text] == []


_OF_A_REGISTRY = (
    "basic-auth.credentials-source", "basic-auth.user-info", "bearer-auth.credentials-source", "bearer-auth.token",
    "ssl.keystore.password",
)  # fmt: skip
OF_REGISTRIES = {
    f"{of}{form}.{name}" for of in ("", "key.", "value.") for form in REGISTERED for name in _OF_A_REGISTRY
}
SECRET_OPTIONS = {
    "auth.header", "auth.password", "auth.token", "auth.username", "catalog.#", "headers.#", "hmac.secret", "password",
    "properties.#", "storage.#", "subscribe", "s3.access-key-id", "s3.secret-access-key", "s3.session-token",
    "s3.role-arn", "gcs.oauth2.token", "gcs.oauth2.token-expires-at", "adls.account-key", "adls.sas-token",
    "adls.tenant-id", "adls.client-id", "adls.client-secret", *OF_REGISTRIES,
}  # fmt: skip


@pytest.mark.parametrize("name", connectors.names())
def test_each_option_is_known_to_be_harmless_or_secret(name: str):
    """A new option is a secret until ``sqlstream.secrets.options`` lists it."""
    options = connectors.connector(name).known_options
    assert {option.key for option in options if not is_known(option.key)} <= SECRET_OPTIONS


def test_settings_are_shown_without_secrets(session: Session):
    session.workspace.settings.set("spark.hadoop.fs.s3a.secret.key", "hunter2")
    session.workspace.settings.set("spark.hadoop.fs.azure.account.key.a.dfs.test", "hunter3")
    session.workspace.settings.set("spark.sql.shuffle.partitions", "2")
    text = shown(session, "SET")
    assert "hunter" not in text and "spark.sql.shuffle.partitions | 2" in text
    assert "hunter" not in repr(
        description_of(planned("SELECT k FROM events", session), "", session.workspace.settings)
    )


def test_a_changed_credential_does_not_change_the_fingerprint_and_a_changed_path_does(session: Session):
    def parts(path: str) -> str:
        session.sql("DROP TABLE IF EXISTS t")
        session.sql(Place("filesystem", {"path": path}, ()).create)
        return to_text(fingerprint(physical(planned("SELECT k FROM t", session))))

    first = parts("s3a://AKIA1:secret1@bucket/items")
    assert first == parts("s3a://AKIA2:secret2@bucket/items")
    assert first != parts("s3a://AKIA1:secret1@bucket/others")
    assert shown_value("path", "s3a://AKIA1:secret1@bucket/items") in first
