"""The check for Java, which runs before anything is installed, and the heap of Java."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.spark.java import java_heap, memory_limit, share_of_micro_batches

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", [("-m", "sqlstream.spark.java"), ("-m", "tests.versions", "--help")])
def test_what_runs_before_the_installation_needs_no_package(command):
    """``-S`` leaves out all packages but those of Python itself."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-S", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")


GROUPS: dict[str, tuple[str | None, dict[str, int | str], int | None]] = {
    "a container of version 2": ("0::/\n", {"memory.max": 3 << 30}, 3 << 30),
    "without a limit": ("0::/\n", {"memory.max": "max"}, None),
    "a service within a slice": (
        "0::/system.slice/job.service\n",
        {"system.slice/job.service/memory.max": "max", "system.slice/memory.max": 2 << 30},
        2 << 30,
    ),
    "version 1": (
        "4:memory:/jobs/one\n1:cpu:/\n",
        {"memory/jobs/one/memory.limit_in_bytes": 1 << 30, "memory/jobs/memory.limit_in_bytes": (1 << 63) - 4096},
        1 << 30,
    ),
    "another system": (None, {}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_memory_is_that_of_the_machine_or_the_least_limit_above_the_process(name: str, tmp_path: Path) -> None:
    groups, limits, expected = GROUPS[name]
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
    for path, limit in limits.items():
        file = tmp_path / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n")
    machine = memory_limit(tmp_path / "nothing")
    assert machine is not None and machine > 1 << 30
    assert memory_limit(tmp_path) == min(machine, expected or machine)


@pytest.mark.parametrize(
    ("memory", "heap"),
    [(None, "2048m"), (2 << 30, "1024m"), (4 << 30, "1024m"), (8 << 30, "2048m"), (24 << 30, "3072m")],
)
def test_the_heap_follows_from_the_memory(memory: int | None, heap: str) -> None:
    assert java_heap(memory) == heap


@pytest.mark.parametrize(("memory", "share"), [(None, 1), (64 << 30, 1), (4 << 30, 0.25), (1 << 30, 0.125)])
def test_micro_batches_are_smaller_where_there_is_little_memory(memory, share):
    assert share_of_micro_batches(memory) == share
