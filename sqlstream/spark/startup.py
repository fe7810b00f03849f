"""Starting Spark on a thread, while the user still types.

The import of PySpark, whose modules import each other in circles, has ended before the thread starts.
"""

from __future__ import annotations

import os
import time
from threading import Thread
from typing import TYPE_CHECKING

import sqlstream.spark.session  # noqa: F401 - PySpark, imported with this module
from sqlstream.spark.archived_classes import advice
from sqlstream.spark.running import is_connect
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.session import Session


class SparkStart:
    """Starts the session's Spark on a thread; ``wait`` returns when it runs, or raises the error of the start.

    PySpark installs its handler of Ctrl-C, which would cancel the work of every job, only if it is started on the main
    thread. Until ``wait`` has returned, the session must not be used for anything that needs Spark.
    """

    def __init__(self, session: Session) -> None:
        keep_stderr()
        self.environment = dict(os.environ)
        """That of this process before Spark has started, which puts files of its own into it."""
        self._session = session
        self._error: Exception | None = None
        self._spark: SparkSession | None = None
        self._seconds = 0.0
        self._thread = Thread(target=self._start, name="sqlstream-start", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until Spark has started; raises the error of a start that failed."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def spark(self) -> SparkSession:
        """The Spark session; waits for it."""
        self.wait()
        assert self._spark is not None
        return self._spark

    def advice(self) -> str | None:
        """The advice how to shorten the next start; None where there is none, or it was given before."""
        return None if is_connect(self.spark) else advice(self._seconds)

    def _start(self) -> None:
        begin = time.monotonic()
        try:
            self._spark = self._session.spark
            self._seconds = time.monotonic() - begin
        except Exception as error:
            self._error = error
