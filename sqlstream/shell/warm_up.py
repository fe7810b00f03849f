"""A small query that warms up Spark while the user types.

Spark's first query with state takes seconds: Java loads and compiles the code that plans and runs it, and the Python
processes of tasks start and import.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.settings import WARM_UP
from sqlstream.spark.running import master_of
from sqlstream.spark.startup import SparkStart

_STILL_SECONDS = 0.3
"""Who has typed ahead has no pause."""
_LOOK_SECONDS = 0.1
_MOST_TRIES = 5
_CLOSE_SECONDS = 10.0

# What most queries have: a source in Python, an exchange, state, and rows that go to the shell.
_SCRIPT = """
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE numbers (n BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen',
    'number-of-rows' = '20', 'rows-per-second' = '1000', 'fields.n.min' = '1', 'fields.n.max' = '5');
SELECT n, COUNT(*) AS many FROM numbers WHERE n < 5 GROUP BY n
"""

_LOG = logging.getLogger("sqlstream.shell")


class WarmUp:
    """Runs a small query once, on a thread, so that Spark is warm for the user's first query. A statement of the user
    stops it, and it starts again afterwards.

    It has its own session, so that no statement sees it. It never makes the shell fail.
    """

    def __init__(self, session: Session, start: SparkStart) -> None:
        self._session = session
        self._start = start
        self._asked = 0
        self._still_since = monotonic()
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._spark_is_there = False

    def begin(self) -> None:
        """Start the thread, unless the settings disable the warm-up."""
        if self._session.workspace.settings[WARM_UP]:
            self._thread = threading.Thread(target=self._run, name="sqlstream-warm-up", daemon=True)
            self._thread.start()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context manager that suspends the warm-up while its block uses Spark. Entering the block does not wait
        until the warm-up has stopped.
        """
        self._asked += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._asked -= 1
            self._still_since = monotonic()

    def close(self) -> None:
        """Stop the warm-up. Does not wait for Spark if it is still starting."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None and self._spark_is_there:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            master = master_of(self._start.spark)
            self._spark_is_there = True
            if not master.startswith("local"):
                return  # processors elsewhere are for what somebody asks for
            for _ in range(_MOST_TRIES):
                if not self._has_pause() or self._once():
                    return
        except Exception as error:
            _LOG.debug("the warm-up failed: %s", error)

    def _has_pause(self) -> bool:
        """Wait until nothing has run for a moment; False once the shell ends."""
        while not self._closed.wait(_LOOK_SECONDS):
            if self._is_still():
                self._wanted.clear()
                if self._is_still():  # somebody may have asked just now
                    return not self._closed.is_set()
        return False

    def _is_still(self) -> bool:
        return not (self._asked or self._session.running) and monotonic() - self._still_since > _STILL_SECONDS

    def _once(self) -> bool:
        """Run the query; False where it was stopped."""
        with Session(self._start.spark.newSession()) as own:
            query = own.sql(_SCRIPT)
            assert isinstance(query, Query)
            while not self._wanted.is_set():
                if query.job.wait(_LOOK_SECONDS):
                    return True
            query.stop()
        return False
