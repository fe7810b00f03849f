"""A small query of the shell's own, while Spark is there and nobody has asked it for anything yet.

Spark's first query with state takes seconds, whatever it asks for: Java loads and compiles what plans and runs it, and
the Python of tasks starts and imports. Who still types need not wait for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from sqlstream.settings import WARM_UP
from sqlstream.spark.running import master_of
from sqlstream.spark.startup import SparkStart

if TYPE_CHECKING:
    from sqlstream.session import Session

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
    """Runs the query once on a thread of its own; what somebody asks for stops it, and it begins again afterwards.

    It has a session of its own, so that no statement sees it. It never fails the shell.
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
        """As soon as Spark is there and nothing runs, unless a setting says that there is to be none."""
        if self._session.workspace.settings[WARM_UP]:
            self._thread = threading.Thread(target=self._run, name="sqlstream-warm-up", daemon=True)
            self._thread.start()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Somebody has Spark do something in the block. Waits for nothing."""
        self._asked += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._asked -= 1
            self._still_since = monotonic()

    def close(self) -> None:
        """It ends, and has left nothing behind. Spark that is still starting is not waited for."""
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
        """Waits until nothing has run for a moment; False once the shell ends."""
        while not self._closed.wait(_LOOK_SECONDS):
            if self._is_still():
                self._wanted.clear()
                if self._is_still():  # somebody may have asked just now
                    return not self._closed.is_set()
        return False

    def _is_still(self) -> bool:
        return not (self._asked or self._session.running) and monotonic() - self._still_since > _STILL_SECONDS

    def _once(self) -> bool:
        """Whether the query ran until its end."""
        from sqlstream.query import Query
        from sqlstream.session import Session

        with Session(self._start.spark.newSession()) as own:
            query = own.sql(_SCRIPT)
            assert isinstance(query, Query)
            while not self._wanted.is_set():
                if query.job.wait(_LOOK_SECONDS):
                    return True
            query.stop()
        return False
