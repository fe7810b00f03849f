"""Options and columns of tables, checked without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sqlstream.connectors import BUILT_IN, LookupTable, Sink, Source, connector, source_connector, validate
from sqlstream.connectors.files.tables import credentials
from sqlstream.connectors.kafka.messages import target_options
from sqlstream.errors import Span
from sqlstream.options import find
from sqlstream.planner.catalog import Column, Table
from sqlstream.session import Session
from sqlstream.types import parse_type

MakeTable = Callable[..., Table]


def codes(table: Table) -> list[str]:
    return [d.code for d in validate(table, {})]


def messages(table: Table) -> str:
    return "\n".join(d.render() for d in validate(table, {}))


def files(make_table: MakeTable, columns: str = "a INT", **options: object) -> Table:
    return make_table("filesystem", columns, **({"path": "/data", "format": "csv"} | options))


def test_every_name_is_a_connector_with_a_description() -> None:
    for name in BUILT_IN:
        kind = connector(name)
        assert (kind.name, bool(kind.doc)) == (name, True)
        assert isinstance(kind, Source | Sink | LookupTable)
        assert len({o.key for o in kind.options}) == len(kind.options)


@pytest.mark.parametrize("name", BUILT_IN)
def test_defaults_are_values_of_their_options(name: str) -> None:
    for option in connector(name).options:
        assert option.doc.endswith((".", ";")) or option.doc[-1].isalnum(), option.key
        if option.default is not None:
            option.kind.parse(option.default)


def test_an_unknown_connector_gets_a_suggestion_or_the_list_of_all(make_table) -> None:
    table = Table("t", (), "filesytem")
    assert codes(table) == ["SS501"]
    assert messages(table).endswith('HINT: Did you mean "filesystem"?')
    assert "HINT: Connectors: blackhole, datagen, " in messages(Table("t", (), "pulsar"))


def test_an_unknown_option_gets_a_suggestion_or_the_list_of_all(make_table) -> None:
    table = files(make_table, csv__field_delimeter=";")
    assert codes(table) == ["SS502"]
    assert messages(table).endswith('HINT: Did you mean "csv.field-delimiter"?')
    far = messages(files(make_table, csv__field_separator=";"))
    assert 'HINT: Did you mean "csv.field-delimiter" or ' in far
    assert "? Options: adls.account-key, " in far
    assert ", arrow.compression, arrow.missing-columns, avro.codec, avro.missing-columns, " in far
    assert "avro.timestamp_mapping.legacy, canal-json." in far
    assert "source.monitor-interval" in far


def test_mistakes_stand_where_the_option_was_written(make_table) -> None:
    spans = {"connector": Span(10, 20), "formt": Span(30, 40)}
    table = make_table("filesystem", "a INT", path="/data", formt="csv")
    assert {d.code: d.span for d in validate(table, spans)} == {"SS502": Span(30, 40), "SS503": Span(10, 20)}


def test_all_mistakes_are_reported_at_once(make_table) -> None:
    assert codes(make_table("datagen", "a INT", rows_per_second="fast", rows="5")) == ["SS504", "SS502"]
    assert codes(make_table("filesystem", "a INT")) == ["SS503", "SS503"]


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ({"source__max_files_per_trigger": "0"}, "a whole number, 1 or more"),
        ({"source__max_files_per_trigger": "many"}, "a whole number, 1 or more"),
        ({"source__monitor_interval": "10 fortnights"}, "a duration such as '500 ms'"),
        ({"csv__header": "yes"}, "'true' or 'false'"),
        ({"csv__field_delimiter": "||"}, "one character"),
        ({"format": "xml"}, "one of 'csv', 'json', 'parquet', 'orc', 'arrow', 'avro', 'text'"),
        ({"path": " "}, "a path or a URI that is not empty"),
    ],
)
def test_a_wrong_value_says_what_is_accepted(make_table, options: dict[str, str], accepted: str) -> None:
    table = files(make_table, **options)
    assert codes(table) == ["SS504"]
    assert accepted in messages(table)


@pytest.mark.parametrize("name", ["protobuf", "raw"])
def test_formats_of_flink_that_come_later_are_not_executed(make_table, name: str) -> None:
    assert codes(files(make_table, format=name)) == ["SS350"]


def test_options_of_the_dialect_that_come_later_are_not_executed(make_table) -> None:
    assert codes(files(make_table, sink__partition_commit__delay="10 s")) == ["SS350"]
    assert codes(files(make_table, source__path__regex_pattern=".*")) == ["SS350"]
    assert codes(kafka(make_table, scan__parallelism="2")) == ["SS350"]
    assert codes(kafka(make_table, format="csv", csv__array_element_delimiter=";")) == ["SS350"]
    assert codes(kafka(make_table, key__csv__array_element_delimiter=";")) == ["SS350"]
    options = {"hostname": "h", "port": 1, "format": "json", "json__decode__json_parser__enabled": "false"}
    assert codes(make_table("socket", "a INT", **options)) == ["SS350"]


def test_options_without_effect_are_taken(make_table) -> None:
    assert codes(files(make_table, scan__watermark__alignment__group="g")) == []
    assert codes(files(make_table, scan__watermark__alignment__max_drift="far")) == ["SS504"]


def test_kafka_is_told_how_messages_go_to_partitions(make_table) -> None:
    options = {"topic": "t", "format": "json", "properties__bootstrap__servers": "h:9092"}
    class_of = {"default": None, "round-robin": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
    for name, expected in class_of.items():
        table = make_table("kafka", "a INT", sink__partitioner=name, **options)
        assert codes(table) == []
        assert target_options(connector("kafka").values(table)).get("kafka.partitioner.class") == expected
    assert codes(make_table("kafka", "a INT", sink__partitioner="fixed", **options)) == []
    assert codes(make_table("kafka", "a INT", sink__partitioner="fixed", kafka__client="spark", **options)) == ["SS504"]


def test_a_function_that_gives_tokens_to_kafka_is_named_by_its_module(make_table) -> None:
    key = "properties.sasl.oauthbearer.token.function"
    options = {"topic": "t", "properties.bootstrap.servers": "h", "properties.sasl.mechanism": "OAUTHBEARER"}
    options |= {"format": "json"}
    assert codes(make_table("kafka", "a INT", **options, **{key: "my.module:token"})) == []
    for wrong in ("token", "my module:token", "my.module:", "eyJhbGciOi.eyJzdWIi.c2ln"):
        assert codes(make_table("kafka", "a INT", **options, **{key: wrong})) == ["SS504"], wrong
    spark = {"kafka.client": "spark", key: "my.module:token"}
    assert codes(make_table("kafka", "a INT", **options, **spark)) == ["SS504"]


def test_the_format_of_values_of_kafka_has_a_long_name_too() -> None:
    columns = "t TIMESTAMP(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, id BIGINT"
    options = "'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092'"
    long = "'value.format' = 'debezium-json', 'value.debezium-json.ignore-parse-errors' = 'true'"
    with Session() as session:
        session.sql(f"CREATE TABLE t ({columns}) WITH ({options}, {long})")
        table = session.workspace.catalog.relation("t")
        assert isinstance(table, Table)
        assert table.option("format") == "debezium-json" and table.columns[0].metadata_key == "ingestion-timestamp"
        assert table.option("debezium-json.ignore-parse-errors") == "true"
        wrong = session.check(f"CREATE TABLE u ({columns}) WITH ({options}, {long}, 'format' = 'json')")
        assert [d.code for d in wrong] == ["SS205"]


def test_sources_take_the_changelog_mode_that_the_planner_reads(make_table) -> None:
    assert codes(files(make_table, changelog_mode="I")) == []
    assert codes(make_table("print", "a INT", changelog_mode="I")) == ["SS502"]


def test_enumerations_ignore_case(make_table) -> None:
    assert connector("filesystem").values(files(make_table, format="CSV"))["format"] == "csv"


# --- formats --------------------------------------------------------------------------------------------------


def test_options_of_another_format_have_no_effect(make_table) -> None:
    table = files(make_table, format="json", csv__header="true")
    assert codes(table) == ["SS504"]
    assert 'option "csv.header" has no effect with format "json"' in messages(table)


@pytest.mark.parametrize("type_", ["ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a: INT>", "BINARY"])
def test_csv_holds_flat_columns_only(make_table, type_: str) -> None:
    assert codes(files(make_table, f"a {type_}")) == ["SS505"]
    assert codes(files(make_table, f"a {type_}", format="json")) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"csv__escape_character": ","}, 'option "csv.escape-character" is the delimiter of fields, too'),
        ({"csv__quote_character": "|", "csv__field_delimiter": "|"}, 'option "csv.quote-character" is the delimiter'),
        ({"csv__null_literal": "a,b", "csv__disable_quote_character": "true"}, "it has a delimiter, and no quotes"),
        ({"csv__null_literal": "a\nb"}, 'option "csv.null-literal" is no text of a field: it has a line break'),
    ],
)
def test_csv_that_no_reader_could_read_is_refused(make_table, options: dict[str, str], message: str) -> None:
    table = files(make_table, **options)
    assert codes(table) == ["SS504"]
    assert message in messages(table)


def test_quotes_hold_any_text_of_null(make_table) -> None:
    for options in ({"csv__null_literal": "a,b"}, {"csv__null_literal": "a\nb", "csv__multi_line": "true"}):
        assert codes(files(make_table, **options)) == []


def test_text_is_one_string(make_table) -> None:
    assert codes(files(make_table, "line STRING", format="text")) == []
    assert codes(files(make_table, "line INT", format="text")) == ["SS505"]
    assert codes(files(make_table, "line STRING; n INT", format="text")) == ["SS505"]


def test_partition_columns_must_exist(make_table) -> None:
    table = files(make_table, "day STRING; n INT", partition_by="dy")
    assert codes(table) == ["SS505"]
    assert 'Did you mean "day"?' in messages(table)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc", "avro", "arrow"])
def test_not_all_columns_are_directories(make_table, form) -> None:
    for listed in ("day,n", "n , day"):
        table = files(make_table, "day STRING; n INT", partition_by=listed, format=form)
        assert codes(table) == ["SS505"]
        assert 'option "partition-by" names all columns of table "t"' in messages(table)
    assert codes(files(make_table, "day STRING; n INT", partition_by="day", format=form)) == []


def test_unknown_metadata_keys_are_listed() -> None:
    columns = (Column("a", parse_type("INT")), Column("p", parse_type("STRING"), metadata_key="file.pth"))
    table = Table("t", columns, "filesystem", (("path", "/data"), ("format", "csv")))
    assert codes(table) == ["SS505"]
    assert 'Did you mean "file.path"?' in messages(table)


# --- datagen --------------------------------------------------------------------------------------------------


def generated(make_table: MakeTable, columns: str, **options: object) -> Table:
    return make_table("datagen", columns, **options)


def test_fields_must_be_columns(make_table) -> None:
    table = generated(make_table, "price INT", fields__prise__min=1)
    assert codes(table) == ["SS504"]
    assert 'Did you mean "price"?' in messages(table)


def test_a_sequence_needs_start_and_end(make_table) -> None:
    assert codes(generated(make_table, "a INT", fields__a__kind="sequence")) == ["SS503", "SS503"]
    table = generated(make_table, "a INT", fields__a__kind="sequence", fields__a__start=5, fields__a__end=1)
    assert codes(table) == ["SS504"]


@pytest.mark.parametrize(
    ("columns", "option", "value"),
    [
        ("a INT", "length", 3),
        ("a STRING", "min", 3),
        ("a BOOLEAN", "max", 3),
        ("a INT", "start", 3),
        ("a INT", "max-past", "1 s"),
        ("a DATE", "max-past", "1 s"),
    ],
)
def test_options_that_a_type_does_not_take_are_refused(make_table, columns: str, option: str, value: object) -> None:
    table = generated(make_table, columns, **{f"fields__a__{option}": value})
    assert codes(table) == ["SS504"]
    assert "has no effect" in messages(table)


@pytest.mark.parametrize(
    ("columns", "low", "high"),
    [("a INT", "5", "4"), ("a TINYINT", "0", "128"), ("a INT", "0", "1.5"), ("a DECIMAL(3, 1)", "0", "100")],
)
def test_numbers_must_fit_their_type(make_table, columns: str, low: str, high: str) -> None:
    assert codes(generated(make_table, columns, fields__a__min=low, fields__a__max=high)) == ["SS504"]


@pytest.mark.parametrize("type_", ["ARRAY<VARIANT>", "STRUCT<a: INT, b: VARIANT>", "MAP<INT, VARIANT>", "VARIANT"])
def test_types_that_cannot_be_generated_are_refused(make_table, type_: str) -> None:
    assert codes(generated(make_table, f"a {type_}")) == ["SS505"]


def test_dates_are_no_sequence(make_table) -> None:
    table = generated(make_table, "a DATE", fields__a__kind="sequence", fields__a__start=1, fields__a__end=2)
    assert codes(table) == ["SS504"]


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("a STRUCT<b: INT>", {"fields__a.c.min": "1"}),
        ("a STRUCT<b: INT>", {"fields__a.min": "1"}),
        ("a STRUCT<b: INT>", {"fields__a.b.length": "1"}),
        ("a STRUCT<b: INT>", {"fields__a.b.min": "2", "fields__a.b.max": "1"}),
        ("a ARRAY<INT>", {"fields__a.min": "1"}),
        (
            "a ARRAY<INT>",
            {"fields__a.element.kind": "sequence", "fields__a.element.start": "1", "fields__a.element.end": "2"},
        ),
        ("a MAP<INT, INT>", {"fields__a.key.null-rate": "0.5"}),
    ],
)
def test_options_of_what_is_in_a_column_are_those_of_its_type(make_table, columns: str, options: dict) -> None:
    assert codes(generated(make_table, columns, **options)) == ["SS504"]


def test_datagen_is_bounded_by_rows_or_by_its_shortest_sequence(make_table) -> None:
    row_count = source_connector("datagen").row_count
    sequence = {"fields__a__kind": "sequence", "fields__a__start": 3, "fields__a__end": 7}
    bounded = source_connector("datagen").bounded
    assert not bounded(generated(make_table, "a INT"))
    assert bounded(generated(make_table, "a INT", number_of_rows=9))
    assert row_count(generated(make_table, "a INT", **sequence)) == 5
    assert row_count(generated(make_table, "a INT", number_of_rows=9, **sequence)) == 5
    assert row_count(generated(make_table, "a INT", number_of_rows=2, **sequence)) == 2


# --- the others -----------------------------------------------------------------------------------------------


def test_rate_has_its_own_columns(make_table) -> None:
    assert codes(make_table("rate", "value BIGINT; timestamp TIMESTAMP")) == []
    assert codes(make_table("rate", "value BIGINT")) == []
    assert codes(make_table("rate", "value INT; x STRING")) == ["SS505", "SS505"]


def kafka(make_table: MakeTable, **options: object) -> Table:
    given = {"topic": "t", "properties__bootstrap__servers": "localhost:9092", "format": "json"} | options
    return make_table("kafka", "a INT", **{k: v for k, v in given.items() if v is not None})


def test_kafka_takes_the_options_of_flink(make_table) -> None:
    options = {
        "properties__group__id": "g",
        "properties__security__protocol": "SSL",
        "scan__startup__mode": "earliest-offset",
        "scan__bounded__mode": "latest-offset",
        "json__ignore_parse_errors": "true",
        "key__fields": "a",
    }
    assert codes(kafka(make_table, **options)) == []


def test_kafka_options_become_those_of_spark(make_table) -> None:
    from sqlstream.connectors.kafka.connector import Kafka, source_options

    table = kafka(
        make_table, topic="a;b", properties__group__id="g", properties__max__poll__records="5", kafka__client="spark"
    )
    assert source_options(table, Kafka().resolved_values(table)) == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.max.poll.records": "5",
        "kafka.group.id": "g",
        "subscribe": "a,b",
        "startingOffsets": "latest",
    }
    stamped = kafka(
        make_table, scan__startup__mode="timestamp", scan__startup__timestamp_millis=5, topic=None, topic_pattern="t.*"
    )
    assert source_options(stamped, Kafka().resolved_values(stamped)) == {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribePattern": "t.*",
        "startingTimestamp": "5",
    }


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic": None}, "SS503"),
        ({"topic_pattern": "t.*"}, "SS504"),
        ({"topic": None, "topic_pattern": "t("}, "SS504"),
        ({"topic": None, "topic_pattern": r"\p{Alpha}+"}, "SS504"),
        ({"topic": None, "topic_pattern": "a{99999999999}"}, "SS504"),
        ({"scan__startup__mode": "timestamp"}, "SS504"),
        ({"scan__startup__timestamp_millis": "5"}, "SS504"),
        ({"scan__startup__mode": "group-offsets"}, "SS503"),
        ({"scan__startup__mode": "specific-offsets"}, "SS504"),
        ({"scan__startup__mode": "specific-offsets", "scan__startup__specific_offsets": "0:1"}, "SS504"),
        ({"scan__bounded__mode": "timestamp"}, "SS504"),
        ({"kafka__client": "spark", "properties__group__id": "g", "scan__startup__mode": "group-offsets"}, "SS504"),
        ({"kafka__client": "spark", "on_data_loss": "skip"}, "SS504"),
        ({"properties__max__poll__records": "5"}, "SS504"),
        ({"properties__ssl__truststore__location": "/store.jks"}, "SS504"),
        ({"key__fields": "b"}, "SS504"),
        ({"format": "protobuf", "protobuf__schema": "message A {}"}, "SS503"),
        ({"format": "canal-json", "canal_json__database__include": "db("}, "SS504"),
        ({"format": "csv", "csv__field_delimiter": "\n"}, "SS504"),
        ({"format": "csv", "csv__escape_character": "\r"}, "SS504"),
        ({"format": "csv", "csv__quote_character": "'", "csv__disable_quote_character": "true"}, "SS504"),
        ({"raw__endianness": "little-endian"}, "SS504"),
    ],
)
def test_kafka_options_that_do_not_fit_are_refused(make_table, options: dict[str, object], code: str) -> None:
    assert codes(kafka(make_table, **options)) == [code]


def test_patterns_of_java_are_a_matter_of_its_client(make_table) -> None:
    assert codes(kafka(make_table, topic=None, topic_pattern=r"\p{Alpha}+", kafka__client="spark")) == []


@pytest.mark.parametrize(
    ("key", "kind", "fits"),
    [
        ("headers", "MAP<STRING, STRING>", True),
        ("headers", "INT", False),
        ("headers", "STRING", False),
        ("timestamp", "TIMESTAMP_NTZ", True),
        ("timestamp", "BIGINT", True),
        ("timestamp", "BOOLEAN", False),
        ("offset", "STRING", True),
        ("offset", "DOUBLE", True),
        ("offset", "TIMESTAMP", False),
        ("topic", "INT", True),
        ("key", "STRING", True),
        ("key", "BOOLEAN", False),
    ],
)
def test_metadata_is_converted_to_types_of_its_kind(make_table, key: str, kind: str, fits: bool) -> None:
    table = kafka(make_table)
    table = replace(table, columns=(*table.columns, Column("m", parse_type(kind), metadata_key=key)))
    assert codes(table) == ([] if fits else ["SS505"])


def test_kafka_is_bounded_where_it_says_so(make_table) -> None:
    assert not source_connector("kafka").bounded(kafka(make_table))
    assert source_connector("kafka").bounded(kafka(make_table, scan__bounded__mode="latest-offset"))


def test_ports_are_in_range(make_table) -> None:
    table = make_table("socket", "line STRING", hostname="localhost", port=70000, format="raw")
    assert codes(table) == ["SS504"]


# --- files that are not there ---------------------------------------------------------------------------------


def test_a_missing_path_is_found_before_spark_starts(make_table, tmp_path) -> None:
    ready = source_connector("filesystem").ready
    (tmp_path / "a.csv").touch()
    assert [d.code for d in ready(files(make_table, path=tmp_path / "b.csv"), {})] == ["SS508"]
    assert [d.code for d in ready(files(make_table, path=(tmp_path / "c.csv").as_uri()), {})] == ["SS508"]
    assert [d.code for d in ready(files(make_table, path=tmp_path / "*.json"), {})] == ["SS508"]
    for path in (tmp_path, tmp_path / "a.csv", tmp_path / "*.csv", "s3a://bucket/none"):
        assert list(ready(files(make_table, path=path), {})) == []


def test_a_path_that_no_file_system_takes_is_an_error_of_ours(make_table) -> None:
    long = files(make_table, path="/tmp/" + "x" * 300)
    assert (
        codes(long)
        == codes(files(make_table, path="/tmp/\ud800"))
        == codes(files(make_table, path="a\0b"))
        == ["SS504"]
    )
    (wrong,) = source_connector("filesystem").ready(long, {})
    assert wrong.code == "SS508" and "cannot be used: File name too long" in wrong.message and len(wrong.message) < 200


def test_credentials_in_paths_are_refused_when_a_job_starts(make_table) -> None:
    """Spark writes the paths of files into the checkpoint."""
    actual = files(make_table, path="s3a://AKIA:secret@bucket/items")
    assert codes(actual) == []
    (wrong,) = source_connector("filesystem").ready(actual, {})
    assert (wrong.code, "secret" in wrong.render()) == ("SS584", False)
    assert list(credentials(files(make_table, path="abfss://container@account.test/items"), {})) == []


def test_a_watched_path_may_come_later(make_table) -> None:
    table = files(make_table, path="/none/at/all", source__monitor_interval="1 s")
    assert list(source_connector("filesystem").ready(table, {})) == []
    assert source_connector("filesystem").poll_ms(table) == 1000


# --- options themselves ---------------------------------------------------------------------------------------


def test_an_exact_key_comes_before_a_pattern() -> None:
    actual = find(connector("kafka").options, "properties.group.id")
    assert actual is not None and actual.key == "properties.group.id"


def test_patterns_do_not_match_nothing() -> None:
    assert find(connector("datagen").options, "fields..kind") is None


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("10 s", 10_000), ("1min", 60_000), ("500 ms", 500), ("2 hours", 7_200_000), ("1 d", 86_400_000), ("250", 250)],
)
def test_durations_are_spelled_as_in_flink(text: str, milliseconds: int) -> None:
    from sqlstream.options import duration_ms

    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "-1 s", "1.5 s", "1 s 2", "1 month"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    from sqlstream.options import duration_ms

    with pytest.raises(ValueError):
        duration_ms(text)
