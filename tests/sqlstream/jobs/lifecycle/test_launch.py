"""Starting Spark's query where Python, which Spark Connect starts for it, is slow."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.control import Clock
from sqlstream.jobs.lifecycle.launch import Launch

SLOW = PySparkException("(org.apache.spark.SparkException) Python worker failed to connect back.")
OTHER = PySparkException("(java.io.IOException) no route to host")
QUERY = MagicMock()


def launch_of(*outcomes: object) -> tuple[Launch, MagicMock, MagicMock]:
    """A launch whose sink makes one writer, the starts of which have these outcomes; the sink, and what starts."""
    writer = MagicMock()
    for name in ("queryName", "outputMode", "option", "trigger"):
        getattr(writer, name).return_value = writer
    writer.start.side_effect = outcomes
    sink, checkpoint = MagicMock(return_value=writer), SimpleNamespace(path="/c", spark_location="/c/spark")
    launch = Launch("q-1", MagicMock(), sink, checkpoint, MagicMock(), True, (), Clock(), 0)  # type: ignore[arg-type]
    return launch, sink, writer.start


def test_a_slow_start_is_tried_again_with_the_same_writer():
    launch, sink, start = launch_of(SLOW, SLOW, QUERY)
    assert launch.start() is QUERY
    assert start.call_count == 3
    assert sink.call_count == 1, "a sink that is asked again would take it for the start of another query"


@pytest.mark.parametrize(("outcomes", "code"), [((SLOW, SLOW, SLOW, QUERY), "SS466"), ((OTHER, QUERY), "SS400")])
def test_a_start_fails_when_it_is_slow_three_times_or_for_another_reason(outcomes, code):
    launch, _, start = launch_of(*outcomes)
    with pytest.raises(ExecutionError) as error:
        launch.start()
    assert (error.value.code, start.call_count) == (code, len(outcomes) - 1)


@pytest.mark.parametrize("error", [None, SLOW])
def test_the_next_query_starts_when_spark_has_given_the_name_free(error):
    """An inactive query may still be listed by its name, also one that has failed."""
    launch, _, start = launch_of(QUERY)
    ended = MagicMock(isActive=False)

    def wait() -> None:
        start.assert_not_called()
        if error is not None:
            raise error

    ended.awaitTermination.side_effect = wait
    assert launch.start_after(ended) is QUERY
    ended.awaitTermination.assert_called_once_with()
