from __future__ import annotations

import pytest

from sqlstream.errors import ConnectorError, Span, UnsupportedError
from sqlstream.planner.binder import BinderSettings
from sqlstream.plans import binder_settings
from sqlstream.secrets import shown_value
from sqlstream.settings import OPTIONS, PLANNED, Settings, without_effect
from sqlstream.spark.handle import spark_settings


def test_values_have_the_type_of_their_key() -> None:
    settings = Settings()
    settings.set("execution.checkpointing.interval", "10 s")
    settings.set("parallelism.default", "4")
    settings.set("table.dml-sync", "TRUE")
    assert settings["execution.checkpointing.interval"] == 10_000
    assert settings["parallelism.default"] == 4
    assert settings["table.dml-sync"] is True
    assert settings.text("execution.checkpointing.interval") == "10 s"


def test_reset_brings_back_the_default() -> None:
    settings = Settings()
    settings.set("table.local-time-zone", "Europe/Berlin")
    settings.set("pipeline.name", "x")
    settings.reset("table.local-time-zone")
    assert (settings["table.local-time-zone"], settings["pipeline.name"]) == ("UTC", "x")
    settings.reset()
    assert settings["pipeline.name"] is None


@pytest.mark.parametrize("key", sorted(PLANNED))
def test_keys_without_effect_are_not_stored(key: str) -> None:
    settings = Settings()
    with pytest.raises(UnsupportedError) as error:
        settings.set(key, "1 s", Span(1, 2))
    assert error.value.code == "SS350" and error.value.diagnostic.hint == PLANNED[key]
    with pytest.raises(UnsupportedError):
        settings.reset(key)
    assert key not in dict(settings.rows())


def test_an_unknown_key_is_suggested() -> None:
    with pytest.raises(ConnectorError) as error:
        Settings().set("paralelism.default", "4", Span(1, 2))
    assert error.value.code == "SS521"
    assert 'Did you mean "parallelism.default"?' in str(error.value)
    with pytest.raises(ConnectorError):
        Settings().reset("paralelism.default")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.interval", "soon"),
        ("parallelism.default", "0"),
        ("sqlstream.engine", "fast"),
        ("table.local-time-zone", "Mars/Olympus"),
        ("table.local-time-zone", "../etc/passwd"),
        ("table.dml-sync", "maybe"),
        ("pipeline.name", ""),
        ("pipeline.name", "../x"),
        ("pipeline.name", "a/b"),
        ("pipeline.name", ".x"),
        ("pipeline.name", "_x"),
        ("pipeline.name", "a\nb"),
        ("pipeline.name", "a "),
        ("spark.sql.streaming.minBatchesToRetain", "9"),
    ],
)
def test_a_wrong_value_is_refused_and_not_stored(key: str, value: str) -> None:
    settings = Settings()
    with pytest.raises(ConnectorError) as error:
        settings.set(key, value, Span(1, 2))
    assert error.value.code == "SS504" and "Accepted: " in str(error.value)
    assert settings.text(key) == next((o.default for o in OPTIONS if o.key == key), None)


def test_settings_of_spark_pass_as_they_are() -> None:
    settings = Settings()
    settings.set("spark.sql.ansi.enabled", "false")
    settings.set("parallelism.default", "3")
    settings.set("table.local-time-zone", "Europe/Berlin")
    assert spark_settings(settings) == {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }


def test_all_keys_are_listed_with_their_values() -> None:
    settings = Settings()
    settings.set("spark.x", "1")
    rows = dict(settings.rows())
    assert rows["spark.x"] == "1" and rows["sqlstream.engine"] == "auto"
    assert set(rows) == {*(o.key for o in OPTIONS if not o.is_pattern), "spark.x"}


def test_settings_of_flink_that_change_nothing_say_why() -> None:
    settings = Settings()
    for key in ("table.exec.mini-batch.size", "taskmanager.numberOfTaskSlots", "state.backend.rocksdb.localdir"):
        settings.set(key, "5")
        assert (without_effect(key) or "").startswith("Changes nothing here"), key
    assert without_effect("parallelism.default") is None


def test_older_names_of_flink_are_kept_as_the_newer_ones() -> None:
    settings = Settings()
    settings.set("restart-strategy", "fixed-delay")
    settings.set("state.checkpoints.dir", "/tmp/c")
    settings.set("table.exec.resource.default-parallelism", "3")
    assert settings["restart-strategy.type"] == "fixed-delay" and settings["parallelism.default"] == 3
    settings.reset("state.checkpoints.dir")
    assert settings["execution.checkpointing.dir"] is None


def test_the_offset_of_a_zone_is_one() -> None:
    settings = Settings()
    settings.set("table.local-time-zone", "GMT-08:00")
    assert settings["table.local-time-zone"] == "Etc/GMT+8"


def test_a_copy_changes_on_its_own() -> None:
    settings = Settings()
    copy = settings.copy()
    copy.set("pipeline.name", "x")
    assert settings["pipeline.name"] is None


def test_settings_say_when_windows_fire() -> None:
    settings = Settings()
    assert binder_settings(settings) == BinderSettings()
    settings.set("table.exec.emit.early-fire.delay", "0")
    assert binder_settings(settings) == BinderSettings()
    settings.set("table.exec.emit.late-fire.enabled", "true")
    with pytest.raises(ConnectorError, match=r'SS522: .*"table.exec.emit.late-fire.delay"'):
        binder_settings(settings)
    settings.set("table.exec.emit.late-fire.delay", "2 s")
    settings.set("table.exec.emit.early-fire.enabled", "true")
    settings.set("table.exec.emit.allow-lateness", "1 min")
    settings.set("table.local-time-zone", "Europe/Berlin")
    assert binder_settings(settings) == BinderSettings(0, 2_000, 60_000, "Europe/Berlin")


def test_a_setting_may_name_a_variable_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("CORES", "3")
    monkeypatch.setenv("S3_KEY", "hunter2")
    settings = Settings()
    settings.set("parallelism.default", "${CORES}")
    settings.set("spark.hadoop.fs.s3a.secret.key", "${S3_KEY}")
    assert settings["parallelism.default"] == 3
    assert spark_settings(settings)["spark.hadoop.fs.s3a.secret.key"] == "hunter2"
    rows = dict(settings.rows())
    assert (rows["parallelism.default"], rows["spark.hadoop.fs.s3a.secret.key"]) == ("${CORES}", "${S3_KEY}")
    assert settings.secrets.hidden("says hunter2") == "says ******"


@pytest.mark.parametrize("key", ["spark.hadoop.fs.s3a.secret.key", "parallelism.default"])
def test_a_variable_that_is_not_set_is_named_with_its_place(key: str, monkeypatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    settings = Settings()
    with pytest.raises(ConnectorError, match="SS560") as error:
        settings.set(key, "${NOT_SET}", Span(1, 2))
    assert error.value.diagnostic.span == Span(1, 2) and settings.given == {}


def test_a_wrong_value_of_a_variable_is_not_shown(monkeypatch) -> None:
    monkeypatch.setenv("CORES", "hunter2")
    with pytest.raises(ConnectorError, match="SS504") as error:
        Settings().set("parallelism.default", "${CORES}")
    assert "hunter2" not in str(error.value) + repr(error.value)


def test_passwords_for_spark_are_secrets() -> None:
    settings = Settings()
    settings.set("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2")
    settings.set("spark.hadoop.fs.s3a.secret.key", "hunter3")
    assert settings.secrets.hidden("-Xss4m hunter2 hunter3") == "-Xss4m ****** ******"


def test_tokens_of_servers_are_secrets() -> None:
    settings = Settings()
    settings.set("metrics.prometheus.token", "hunter2")
    settings.set("lineage.openlineage.api-key", "hunter3")
    settings.set("traces.otlp.url", "http://me:hunter4@collector:4318")
    assert settings.secrets.hidden("hunter2 hunter3 hunter4 collector") == "****** ****** ****** collector"


def test_the_values_of_all_settings_are_shown():
    """None of them is a secret, but tokens, keys of servers and what an address may hold. What is not listed would be
    taken for one, as families of
    Flink's are that hold passwords of its cluster."""
    hidden = [option.key for option in OPTIONS if shown_value(option.key, "some") != "some"]
    assert [key for key in hidden if not key.endswith((".#", ".url", ".token", ".api-key"))] == []
    assert "security.#" in hidden


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("sqlstream.gear", "sqlstream.engine", "native"), ("sqlstream.parquet-reader", "sqlstream.file-reader", "spark")],
)
def test_old_names_are_still_read(old: str, new: str, value: str):
    settings = Settings()
    settings.set(old, value)
    assert settings[new] == value
    settings.reset(old)
    assert settings[new] == "auto"
