"""Savepoints of jobs of every kind with state: a changed query goes on from one, over other partitions.

What comes out in all is that of a job that nobody has stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream.jobs import JobState
from sqlstream.jobs.savepoints import read_manifest
from tests.sqlstream.jobs.kinds import KINDS, Run, undisturbed, until

pytestmark = pytest.mark.spark

PARTITIONS = 3

# Their state is written as that of the windows of a set is.
_REPEATED = ("barriers", "process", "deferred")
_NAMES = [pytest.param(name, marks=pytest.mark.long) if name in _REPEATED else name for name in KINDS]


@pytest.mark.long
@pytest.mark.parametrize("name", _NAMES)
def test_a_changed_job_goes_on_from_a_savepoint_over_other_partitions(spark: Any, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    run = Run(spark, tmp_path / "disturbed", kind)
    run.put(1, kind.first)
    job = run.start("checkpoints")
    until(lambda: job.progress().rows_in == len(kind.first))
    until(lambda: (job.progress().pending or 0) == kind.pending)
    path = job.stop(savepoint=str(tmp_path / "savepoint"))
    assert path is not None
    manifest = read_manifest(Path(path))
    assert manifest is not None
    assert manifest.partitions == 1
    before = run.output()
    (run.folder / "answers").touch()
    run.put(2, kind.then)
    settings = {"execution.state-recovery.path": path, "parallelism.default": str(PARTITIONS)}
    again = run.start("others", kind.change, **settings)
    assert again.stop(drain=True) is None
    assert again.state is JobState.FINISHED
    run.close()
    output = run.output()
    assert output == undisturbed(spark, tmp_path / "undisturbed", kind)
    assert before != output, "something has been left to the second job"
