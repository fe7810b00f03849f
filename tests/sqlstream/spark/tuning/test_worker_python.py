"""Workers run this Python and do not import from Spark's zip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sqlstream.spark.tuning.applied import worker_python
from sqlstream.udfs.spark import daemon


def test_the_zip_is_left_out_of_the_path_and_the_rest_kept_in_order():
    path = "/a b:/spark/python/lib/pyspark.zip:/c*"
    code = "import os, sys; print(sys.executable, sys.argv[1:], os.environ['PYTHONPATH'])"
    command = [worker_python(), "-c", code, "x y"]
    printed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == f"{sys.executable} ['x y'] /a b:/c*".split()


def test_the_daemon_of_workers_imports_what_they_need_before_it_forks():
    code = (
        "import gc, sys; from sqlstream.udfs.spark import daemon; daemon.preload(); "
        "print(set(daemon.PRELOADED) <= set(sys.modules), gc.get_freeze_count() > 10_000)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["True", "True"]


def test_the_daemon_runs_in_place_of_that_of_pyspark(tmp_path: Path):
    """It tells Spark its port, and ends with its input."""
    said = "sys.argv, repr(sys.path[0]), 'sqlstream.udfs.exchange' in sys.modules"
    lines = ["import atexit, sys", f"atexit.register(lambda: print({said}, file=sys.stderr))"]
    (tmp_path / "sitecustomize.py").write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [worker_python(), "-m", "pyspark.daemon", "pyspark.worker"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, capture_output=True, timeout=60)
    assert len(ran.stdout) == 4, ran.stderr
    assert ran.stderr.decode().strip() == f"{[daemon.__file__, 'pyspark.worker']} '' True"
