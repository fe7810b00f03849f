"""The settings that say what jobs report to the outside, and where."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlstream.options import DURATION, NAME, PATH, Option, OptionKind, integer, one_of

LINEAGE_URL, LINEAGE_KEY = "lineage.openlineage.url", "lineage.openlineage.api-key"
LINEAGE_FILE, LINEAGE_NAMESPACE = "lineage.openlineage.file", "lineage.openlineage.namespace"
LINEAGE_SERVERS, LINEAGE_TOPIC = "lineage.openlineage.kafka.bootstrap.servers", "lineage.openlineage.kafka.topic"
LINEAGE_PROPERTIES = "lineage.openlineage.kafka.properties"
LINEAGE_INTERVAL = "lineage.openlineage.interval"
LOG_FORMAT, LOG_LEVEL = "logging.format", "logging.level"
OTLP_METRICS, OTLP_INTERVAL, OTLP_TRACES = "metrics.otlp.url", "metrics.otlp.interval", "traces.otlp.url"
PORT, HOST, TOKEN = "metrics.prometheus.port", "metrics.prometheus.host", "metrics.prometheus.token"


def _web_address(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(text)
    return text.strip()


def _properties(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(";") if pair.strip()]
    if not pairs or not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError(text)
    return {name.strip(): value.strip() for name, _, value in pairs}


PROPERTIES = OptionKind("pairs", "pairs such as 'security.protocol=SSL;ssl.truststore.location=ca.pem'", _properties)
WEB_ADDRESS = OptionKind("URL", "a URL such as 'http://collector:4318'", _web_address)

OPTIONS = (
    Option(
        LINEAGE_URL,
        WEB_ADDRESS,
        "A server of OpenLineage, to which jobs send what they read and write, column by column: http://marquez:5000, "
        "or with a path the whole address. Not given, none.",
    ),
    Option(LINEAGE_KEY, NAME, "The key of that server, sent as a bearer token. To be given as ${NAME}."),
    Option(
        LINEAGE_FILE, PATH, "A file to which the same events are appended, one JSON object a line. Not given, none."
    ),
    Option(LINEAGE_SERVERS, NAME, "Servers of Kafka, to whose topic the same events are written. Not given, none."),
    Option(
        LINEAGE_TOPIC,
        NAME,
        "That topic. The key of a message is run: and the namespace and name of the job.",
        "openlineage.events",
    ),
    Option(
        LINEAGE_PROPERTIES,
        PROPERTIES,
        "Properties of that client as of a Kafka table, without properties. before them: "
        "'security.protocol=SSL;ssl.truststore.location=ca.pem'. Secrets are to be given as ${NAME}.",
    ),
    Option(
        LINEAGE_NAMESPACE, NAME, "The namespace of jobs, and of tables that are kept nowhere, in events.", "sqlstream"
    ),
    Option(LINEAGE_INTERVAL, DURATION, "How often a running job sends an event, after an epoch.", "1 min"),
    Option(
        PORT,
        integer(0, 65535),
        "The port at which this process shows the metrics of its jobs to Prometheus (/metrics), and whether they run "
        "(/health, /ready). 0: any free one. Not given, none.",
    ),
    Option(
        HOST,
        NAME,
        "The address that this port is opened on: of this machine alone, unless another one is given, such as 0.0.0.0.",
        "127.0.0.1",
    ),
    Option(
        TOKEN,
        NAME,
        "Metrics are shown to requests with this bearer token alone. To be given as ${NAME}, a variable of the "
        "environment. Not given, to all requests that reach the port.",
    ),
    Option(
        OTLP_METRICS,
        WEB_ADDRESS,
        "A collector of OpenTelemetry, to which this process sends the metrics of its jobs by OTLP over HTTP, below "
        "/v1/metrics. Headers are those of the variable OTEL_EXPORTER_OTLP_HEADERS. Not given, none.",
    ),
    Option(OTLP_INTERVAL, DURATION, "How often they are sent.", "10 s"),
    Option(
        OTLP_TRACES,
        WEB_ADDRESS,
        "A collector of OpenTelemetry, to which this process sends a span for each epoch of its jobs, below "
        "/v1/traces. Not given, none.",
    ),
    Option(
        LOG_FORMAT,
        one_of("json", "text"),
        "Jobs log on standard error what each epoch did, dropped rows, failures and ends. json: one object a line, "
        "with job, epoch, operator and table where it is about one; text: for people. Not given, nothing.",
    ),
    Option(
        LOG_LEVEL,
        one_of("debug", "info", "warning", "error"),
        "The least level of these lines; with warning, epochs without anything unusual are left out.",
        "info",
    ),
)
