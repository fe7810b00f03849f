"""A Python for Spark's workers that has what PySpark needs and nothing of ours."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_PACKAGES = ("numpy", "numpy.libs", "pandas", "pyarrow", "pyarrow.libs", "google", "pyspark", "py4j")
_NEEDED_BY_THEM = ("dateutil", "pytz", "tzdata", "six.py", "typing_extensions.py", "packaging")
_OF_CONNECT = ("grpc", "grpc_status", "zstandard")

_SCRIPT = """#!/bin/sh
PYTHONPATH={site} exec {python} -S -P "$@"
"""


def bare_python(folder: Path) -> str:
    """A command below ``folder`` that starts this Python with a few of its packages and no other folder to look in."""
    site = folder / "site"
    site.mkdir(parents=True)
    for name in (*_PACKAGES, *_NEEDED_BY_THEM, *_OF_CONNECT):
        for place in {Path(sysconfig.get_path(key)) for key in ("purelib", "platlib")}:
            if (place / name).exists():
                (site / name).symlink_to(place / name)
    command = folder / "python"
    command.write_text(_SCRIPT.format(site=site, python=sys.executable), encoding="utf-8")
    command.chmod(0o755)
    return str(command)
