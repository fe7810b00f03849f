"""Java's properties of Kafka clients as those of librdkafka, the client in C with which tasks read and write topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import MISSING_OPTION, WRONG_VALUE
from sqlstream.udfs.kafka.tokens import FUNCTION, located

PREFIX = "properties."
JAAS = "sasl.jaas.config"

_RENAMED = {
    "client.id.prefix": "client.id",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""Properties of another name and the same meaning."""

COMMITS = "commit.offsets.on.checkpoint"
"""A property of Flink's."""
_OURS = ("auto.commit.interval.ms", "auto.offset.reset", COMMITS, "enable.auto.commit", "group.id")
"""Properties that the source follows itself: offsets are in the checkpoint, and committed for monitoring only."""

_BY_SPARK = "or set 'kafka.client' = 'spark', which reads with the client of Java"
_REFUSED = {
    "default.api.timeout.ms": "Write 'properties.request.timeout.ms'.",
    "interceptor.classes": f"Leave it out, {_BY_SPARK}.",
    "metric.reporters": f"Leave it out, {_BY_SPARK}.",
    "key.deserializer": "Leave it out: 'key.format' says how keys are read.",
    "key.serializer": "Leave it out: 'key.format' says how keys are written.",
    "max.block.ms": "Write 'properties.delivery.timeout.ms': a full queue waits so long.",
    "max.poll.records": "Write 'source.max-rows-per-trigger'.",
    "partitioner.class": "Write 'sink.partitioner'.",
    "partitioner.ignore.keys": "Leave it out, or write 'sink.partitioner' = 'round-robin'.",
    "partition.discovery.interval.ms": "Write 'scan.topic-partition-discovery.interval'.",
    "partition.assignment.strategy": "Leave it out: each partition is read by one task.",
    "sasl.client.callback.handler.class": f"Leave it out, {_BY_SPARK}.",
    "security.providers": f"Leave it out, {_BY_SPARK}.",
    "sasl.login.class": f"Leave it out, {_BY_SPARK}.",
    "sasl.oauthbearer.jwks.endpoint.url": "Leave it out: brokers check tokens by it.",
    "sasl.oauthbearer.scope.claim.name": f"Leave it out, {_BY_SPARK}.",
    "ssl.enabled.protocols": f"Leave it out: versions are negotiated, TLS 1.2 and later; {_BY_SPARK[3:]}.",
    "ssl.engine.factory.class": f"Leave it out, {_BY_SPARK}.",
    "ssl.keymanager.algorithm": f"Leave it out, {_BY_SPARK}.",
    "ssl.protocol": f"Leave it out, {_BY_SPARK}.",
    "ssl.provider": f"Leave it out, {_BY_SPARK}.",
    "ssl.secure.random.implementation": f"Leave it out, {_BY_SPARK}.",
    "ssl.trustmanager.algorithm": f"Leave it out, {_BY_SPARK}.",
    "transactional.id": "Write 'sink.transactional-id-prefix'.",
    "value.deserializer": "Leave it out: 'format' says how values are read.",
    "value.serializer": "Leave it out: 'format' says how values are written.",
}
"""Properties of Java that librdkafka lacks, with what to write instead."""

_OF_LOGINS = re.compile(
    r"sasl\.login\.(?:refresh|connect|read|retry)\..+|sasl\.kerberos\.ticket\..+"
    r"|sasl\.oauthbearer\.(?:expected|clock|jwt|header)\..+"
)
"""Properties of Java for how its logins work, which have no counterpart either."""

_HANDLER = "sasl.login.callback.handler.class"
_TOKENS_BY_URL = "sasl.oauthbearer.token.endpoint.url"

_STORES = ("location", "type", "password")
_SUFFIXES = {".p12": "PKCS12", ".pfx": "PKCS12", ".pem": "PEM", ".crt": "PEM", ".jks": "JKS"}

_LOGIN = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?i:required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL
)
_LOGIN_OPTION = re.compile(
    r"""\s*([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE = "OAuthBearerLoginModule"
_SUBJECT = "unsecuredLoginStringClaim_sub"
"""Names who logs in by a token that nobody signs, which brokers take only for trying things out."""


def check_properties(options: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields SS504 for properties that librdkafka cannot follow. ``options``: those of the table, as written."""
    given = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
    for name, hint in _wrong(given):
        key = f"{PREFIX}{name}"
        yield Diagnostic(WRONG_VALUE, f'option "{key}" has no meaning for librdkafka', spans.get(key), hint=hint)
    yield from _of_function(given, spans)


def _of_function(given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterator[Diagnostic]:
    """What a function that gives tokens needs, and does not go with."""
    if FUNCTION not in given:
        return
    key = f"{PREFIX}{FUNCTION}"
    mechanism = next((given[name] for name in ("sasl.mechanism", "sasl.mechanisms") if name in given), "")
    if mechanism != "OAUTHBEARER" and "${" not in mechanism:
        message = f"option \"{key}\" needs '{PREFIX}sasl.mechanism' = 'OAUTHBEARER'"
        hint = f"Add '{PREFIX}sasl.mechanism' = 'OAUTHBEARER' to WITH."
        yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=hint)
    for other in (JAAS, _TOKENS_BY_URL):
        if other in given:
            message = f'options "{key}" and "{PREFIX}{other}" both say where tokens are from'
            yield Diagnostic(WRONG_VALUE, message, spans.get(f"{PREFIX}{other}"), hint="Leave one of them out.")


def _wrong(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((name, hint) for name, hint in _REFUSED.items() if name in given)
    yield from ((name, "Leave it out: librdkafka logs in again by itself.") for name in given if _OF_LOGINS.match(name))
    if not given.get(_HANDLER, _KNOWN_HANDLER).endswith(_KNOWN_HANDLER):
        yield _HANDLER, f"Name a function of Python that gives tokens in '{PREFIX}{FUNCTION}', {_BY_SPARK}."
    for store in ("truststore", "keystore"):
        kind = _type_of(given, store)
        if f"ssl.{store}.location" not in given or (kind == "PKCS12" and store == "keystore"):
            continue
        if kind != "PEM":
            accepted = "PEM" if store == "truststore" else "PEM or PKCS12"
            hint = f"It reads no {kind} here: convert the file to {accepted} (keytool, openssl pkcs12), {_BY_SPARK}."
            yield f"ssl.{store}.location", hint
        elif f"ssl.{store}.password" in given:
            hint = "Files of PEM have none; 'properties.ssl.key.password' is that of a private key."
            yield f"ssl.{store}.password", hint
    login = given.get(JAAS)
    if login is not None and "${" not in login and _login(login) is None:
        modules = ", ".join((*_PASSWORD_MODULES, _TOKEN_MODULE))
        yield JAAS, f"It is read as '<module> required name=\"value\" …;' with one of {modules}; {_BY_SPARK[3:]}."


def client_properties(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns librdkafka's properties for the parsed and resolved options of a table. ConnectorError SS504 for a login
    that cannot be read, once environment variables are in it.
    """
    given = {k.removeprefix(PREFIX): str(v) for k, v in values.items() if k.startswith(PREFIX) and v is not None}
    properties: dict[str, str] = {}
    for name in _OURS:
        given.pop(name, None)
    given.pop(_HANDLER, None)
    if _TOKENS_BY_URL in given:
        properties["sasl.oauthbearer.method"] = "oidc"  # Java knows it by the URL
    if FUNCTION in given:
        properties |= located(given.pop(FUNCTION))
    login = given.pop(JAAS, None)
    if login is not None:
        properties |= _of_login(login)
    for store in ("truststore", "keystore"):
        kind = _type_of(given, store)
        location, _, password = (given.pop(f"ssl.{store}.{name}", None) for name in _STORES)
        if location is not None:
            properties |= _of_store(store, kind, location, password)
    if "ssl.endpoint.identification.algorithm" in given:  # Java turns the check off by an empty text
        algorithm = given.pop("ssl.endpoint.identification.algorithm")
        properties["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    if (memory := given.pop("buffer.memory", None)) is not None:  # in bytes; without it so many kB as librdkafka says
        properties["queue.buffering.max.kbytes"] = str(-(-int(memory) // 1024)) if memory.isdecimal() else memory
    return properties | {_RENAMED.get(name, name): value for name, value in given.items()}


def _type_of(given: Mapping[str, str], store: str) -> str:
    """The type of a store: as given, or as the name of its file says; Java's default is JKS."""
    location = given.get(f"ssl.{store}.location", "")
    by_name = next((kind for suffix, kind in _SUFFIXES.items() if location.lower().endswith(suffix)), "JKS")
    return given.get(f"ssl.{store}.type", by_name).upper()


def _of_store(store: str, kind: str, location: str, password: str | None) -> dict[str, str]:
    if store == "truststore":
        return {"ssl.ca.location": location}
    if kind == "PEM":  # one file with the key and its certificates
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    return {"ssl.keystore.location": location} | ({} if password is None else {"ssl.keystore.password": password})


def _login(text: str) -> tuple[str, dict[str, str]] | None:
    """The module of a login and its options; None if librdkafka lacks it, or one of the options."""
    match = _LOGIN.fullmatch(text)
    if match is None:
        return None
    module = match["module"].rpartition(".")[2]
    options = {
        name: plain or re.sub(r"\\(.)", r"\1", double or single)
        for name, double, single, plain in _LOGIN_OPTION.findall(match["options"])
    }
    rest = _LOGIN_OPTION.sub("", match["options"])
    return (module, options) if not rest.strip() and _is_known(module, options) else None


def _is_known(module: str, options: Mapping[str, str]) -> bool:
    given = {*options}
    if module in _PASSWORD_MODULES:
        return given == {"username", "password"}
    if module != _TOKEN_MODULE:
        return False
    if _SUBJECT in options:
        return all(name in _OF_UNSECURED or name.startswith(_UNSECURED_EXTENSION) for name in given)
    given = {name for name in given if not name.startswith(_EXTENSION)}
    # Java 4.1 has who logs in by properties of its own, which librdkafka knows.
    return given - {"scope"} in ({"clientId", "clientSecret"}, set())


def _of_login(text: str) -> dict[str, str]:
    login = _login(text)
    if login is None:
        message = f'option "{PREFIX}{JAAS}" is no login that librdkafka has'
        modules = ", ".join((*_PASSWORD_MODULES, _TOKEN_MODULE))
        hint = f"Write '<module> required name=\"value\" …;' with one of {modules}."
        raise ConnectorError(WRONG_VALUE, message, hint=hint)
    module, options = login
    if module != _TOKEN_MODULE:
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if _SUBJECT in options:
        return _unsecured(options)
    extensions = ",".join(f"{n.removeprefix(_EXTENSION)}={v}" for n, v in options.items() if n.startswith(_EXTENSION))
    more = {"sasl.oauthbearer.extensions": extensions} if extensions else {}
    named = {name: options[of] for name, of in _OF_CLIENTS.items() if of in options}
    return {"sasl.oauthbearer.method": "oidc", **named, **more}


_OF_CLIENTS = {
    "sasl.oauthbearer.client.id": "clientId",
    "sasl.oauthbearer.client.secret": "clientSecret",
    "sasl.oauthbearer.scope": "scope",
}
_EXTENSION = "extension_"
_KNOWN_HANDLER = "OAuthBearerLoginCallbackHandler"
"""The class of Java that gets tokens from a URL."""

_OF_UNSECURED = {
    _SUBJECT: "principal",
    "unsecuredLoginLifetimeSeconds": "lifeSeconds",
    "unsecuredLoginPrincipalClaimName": "principalClaimName",
    "unsecuredLoginScopeClaimName": "scopeClaimName",
    "unsecuredLoginStringClaim_scope": "scope",
}
_UNSECURED_EXTENSION = "unsecuredLoginExtension_"


def _unsecured(options: Mapping[str, str]) -> dict[str, str]:
    """The properties of an unsecured token, whose parts librdkafka has under names of its own."""
    parts = {_OF_UNSECURED[name]: value for name, value in options.items() if name in _OF_UNSECURED}
    extensions = {
        f"extension_{n.removeprefix(_UNSECURED_EXTENSION)}": v
        for n, v in options.items()
        if n.startswith(_UNSECURED_EXTENSION)
    }
    config = " ".join(f"{name}={value}" for name, value in {**parts, **extensions}.items())
    return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": config}
