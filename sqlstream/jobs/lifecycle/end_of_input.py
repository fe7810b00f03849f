"""Says whether open windows and timers fire at the end of a bounded input, or wait for the next run."""

from __future__ import annotations

from enum import Enum

from sqlstream.errors import ExecutionError, repeating

ROWS_AFTER_END = repeating("SS422")


class EndOfInput(Enum):
    """The setting ``execution.end-of-input``.

    FINAL: the watermark goes to infinity and everything pending fires, so the job is over for good. PAUSE: what is
    pending stays in the checkpoint, and the next run goes on with it.
    """

    FINAL = "final"
    PAUSE = "pause"


def after_the_end() -> ExecutionError:
    """The error of a job that is to go on after a run that has ended its input."""
    return ExecutionError(
        ROWS_AFTER_END,
        "an earlier run of the job has ended its input for good",
        detail="It was 'execution.end-of-input' = 'final', or STOP JOB … WITH DRAIN: the watermark went to infinity "
        "and all windows closed, so rows that come now are late.",
        hint="To read the rows of later runs too, start anew in another directory ('execution.checkpointing.dir') with "
        "SET 'execution.end-of-input' = 'pause', which keeps open windows for the next run.",
    )
