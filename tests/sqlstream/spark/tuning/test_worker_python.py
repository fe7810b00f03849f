"""Workers run this Python and do not import from Spark's zip."""

from __future__ import annotations

import os
import subprocess
import sys

from sqlstream.spark.tuning.applied import worker_python


def test_the_zip_is_left_out_of_the_path_and_the_rest_kept_in_order():
    path = "/a b:/spark/python/lib/pyspark.zip:/c*"
    code = "import os, sys; print(sys.executable, sys.argv[1:], os.environ['PYTHONPATH'])"
    command = [worker_python(), "-c", code, "x y"]
    printed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == f"{sys.executable} ['x y'] /a b:/c*".split()
