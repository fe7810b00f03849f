"""The Spark of a session: started when it is first needed; SET changes its settings while the session lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.errors import ConnectorError
from sqlstream.latency import spark_settings_of_latency
from sqlstream.settings import LEAST_RETAINED, RETAINED_BY_SPARK, STATIC_SETTING, Settings
from sqlstream.spark.internals import make_active
from sqlstream.spark.private_settings import JAVA_OPTIONS
from sqlstream.spark.running import (
    ONE_AT_A_TIME,
    is_connect,
    is_spark_gone,
    loaded,
    only_at_start,
    put_back,
    require_master,
    running_session,
)
from sqlstream.spark.tuning.choices import FIELDS, NONE, tuning_of
from sqlstream.udfs.hiding import hiding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED_VALUE = "SS594"


class SparkHandle:
    """Gives a session its Spark: starts it when it is first needed, and applies the session's settings to it."""

    def __init__(self, spark: SparkSession | str | None) -> None:
        self.master = spark if isinstance(spark, str) else None
        self._given = None if isinstance(spark, str) else spark
        self._spark: SparkSession | None = None
        self._before: dict[str, str | None] = {}
        self._tuning = NONE

    def require_possible(self) -> None:
        """Raises ExecutionError SS413 if the session asks for a master and this process already runs Spark with another
        one. Does not start Spark.
        """
        running = running_session() if self.master is not None else None
        if running is not None:
            require_master(running, self.master)

    @property
    def started(self) -> bool:
        """True where Spark has been started for the session, or was given to it."""
        return self._spark is not None

    @property
    def is_remote(self) -> bool:
        """True for sessions of Spark Connect, whose files may be on another machine."""
        if self._given is None:
            return (self.master or "").startswith("sc://")
        return is_connect(self._given)

    def get(self, settings: Settings) -> SparkSession:
        """The Spark session, started at the first call, with these settings applied for the calling thread."""
        with hiding(settings.secrets), ONE_AT_A_TIME:
            if self._spark is None:
                self._spark = self._start(settings)
            self.apply(settings)
            make_active(self._spark)  # or Spark plans with its defaults, by which there are no columns of type TIME
            return self._spark

    def _start(self, settings: Settings) -> SparkSession:
        session = loaded("sqlstream.spark.session")  # PySpark, which takes a second
        tuning = tuning_of(settings)
        if self._given is not None:
            self._tuning = replace(NONE, quiet_errors=tuning.quiet_errors)
            prepared: SparkSession = session.prepared(self._given, tuning)
            return prepared
        # The other settings can be put back when the session closes.
        spark: SparkSession = session.spark_session(settings.spark, self.master, settings.secrets, tuning)
        self._tuning = session.tuning_in_effect()
        return spark

    def apply(self, settings: Settings) -> None:
        """Apply changed settings to a running Spark; settings that are reset get their former values back."""
        if self._spark is None:
            return
        self._require_tuned(settings)
        wanted = spark_settings(settings)
        with ONE_AT_A_TIME:
            for key in [k for k in self._before if k not in wanted]:
                self._restore(key)
            for key, value in wanted.items():
                if not _is_set(self._spark.conf.get(key, None), key, value):
                    self._change(key, value)

    def _require_tuned(self, settings: Settings) -> None:
        """ConnectorError SS523 for a setting that only takes effect when Spark starts."""
        for key in settings.given:
            if key in FIELDS and settings[key] != getattr(self._tuning, FIELDS[key]):
                raise _not_changeable(key)

    def _change(self, key: str, value: str) -> None:
        from pyspark.errors import AnalysisException, PySparkException  # Spark runs: it has been loaded

        assert self._spark is not None
        if only_at_start(key):
            raise _not_changeable(key)
        before = self._spark.conf.get(key, None)
        try:
            self._spark.conf.set(key, value)
        except AnalysisException as error:
            raise _not_changeable(key) from error
        except PySparkException as error:
            message = f'Spark refuses the value of setting "{key}"'
            raise ConnectorError(REFUSED_VALUE, message, detail=str(error).partition("\n")[0]) from error
        self._before.setdefault(key, before)

    def _restore(self, key: str) -> None:
        assert self._spark is not None
        put_back(self._spark, key, self._before.pop(key))

    def release(self) -> None:
        """Restore the settings that the session has changed; Spark keeps running for others."""
        try:
            with ONE_AT_A_TIME:
                for key in list(self._before):
                    self._restore(key)
        except Exception as error:
            if not is_spark_gone(error):
                raise


def _is_set(actual: str | None, key: str, value: str) -> bool:
    """Whether the user has set a setting; JVM options that sqlstream appends do not count."""
    return actual == value or (key in JAVA_OPTIONS and (actual or "").startswith(f"{value} "))


def _not_changeable(key: str) -> ConnectorError:
    hint = (
        "Give it to the first connect() of a process, or on the command line with --set: before Spark starts. A "
        "session that runs already is stopped with SparkSession.active().stop()."
    )
    return ConnectorError(STATIC_SETTING, f'setting "{key}" cannot be changed while Spark runs', hint=hint)


def spark_settings(settings: Settings) -> Mapping[str, str]:
    """Returns Spark's configuration (``spark.…``) for the settings of a session, by key."""
    wanted = {**spark_settings_of_latency(settings), **settings.spark}
    if settings["table.local-time-zone"] is not None:
        wanted["spark.sql.session.timeZone"] = settings["table.local-time-zone"]
    if settings["parallelism.default"] is not None:
        wanted["spark.sql.shuffle.partitions"] = str(settings["parallelism.default"])
    retained = settings["execution.checkpointing.num-retained"]
    if retained is not None:
        wanted[RETAINED_BY_SPARK] = str(max(retained, LEAST_RETAINED))
    return wanted
