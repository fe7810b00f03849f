"""What a job does at the end of its input, by the settings of its session."""

from __future__ import annotations

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.jobs.lifecycle.coordinator import EndOfInput
from sqlstream.jobs.lifecycle.specification import END_OF_INPUT, end_of_input_of
from sqlstream.settings import Settings

DIRECTORY = "execution.checkpointing.dir"
RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


def settings(**given: str) -> Settings:
    actual = Settings()
    for key, value in given.items():
        actual.set({"directory": DIRECTORY, "retention": RETENTION, "end": END_OF_INPUT}[key], value)
    return actual


@pytest.mark.parametrize(
    ("given", "named", "expected"),
    [
        ({}, True, "final"),
        ({}, False, "final"),
        ({"directory": "/c"}, True, "pause"),
        ({"directory": "/c"}, False, "final"),
        ({"directory": "/c", "retention": "RETAIN_ON_CANCELLATION"}, True, "final"),
        ({"directory": "/c", "end": "final"}, True, "final"),
        ({"end": "pause"}, False, "pause"),
        ({"directory": "/c", "end": "final", "retention": "NO_EXTERNALIZED_CHECKPOINTS"}, True, "final"),
    ],
)
def test_a_job_pauses_where_the_next_run_finds_its_checkpoint_or_the_setting_says_so(given, named, expected):
    assert end_of_input_of(settings(**given), named=named) is EndOfInput(expected)


def test_a_job_that_pauses_keeps_its_checkpoint():
    given = settings(directory="/c", end="pause", retention="DELETE_ON_CANCELLATION")
    with pytest.raises(ConnectorError, match="SS540: a job cannot pause at the end of its input and delete") as error:
        end_of_input_of(given, named=True)
    assert (
        error.value.diagnostic.hint
        == f"RESET '{RETENTION}', which is 'DELETE_ON_CANCELLATION', or SET '{END_OF_INPUT}' = 'final'."
    )


def test_an_end_of_input_is_one_of_two():
    with pytest.raises(ConnectorError, match=f'"{END_OF_INPUT}"'):
        settings(end="stop")
