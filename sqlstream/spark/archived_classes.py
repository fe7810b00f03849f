"""The class archive: the classes of the JVM, loaded and verified once and stored in a file for faster starts.

The module ``sqlstream.class_archive`` makes the file, and every local session uses it from then on. The JVM checks that
Java and all jars are the same, and ignores the archive if not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from sqlstream.paths import cache_folder, is_there
from sqlstream.spark.java import find_java

COMMAND = "python -m sqlstream.class_archive"
QUIET = "-Xlog:cds=off -Xlog:class+path=off"
"""An archive that does not fit is no news."""

_SLOW_SECONDS = 3.0


def archive_file() -> Path | None:
    """The path of the archive of Java classes (CDS) for this Spark and this Java, which shortens the start of the JVM.
    The file may not exist. None if the user has no cache folder.
    """
    folder = cache_folder()
    if folder is None:
        return None
    installation = f"{Path(find_java() or '').resolve()} {Path(pyspark.__file__).parent}"
    return folder / f"spark-{pyspark.__version__}-{hashlib.sha256(installation.encode()).hexdigest()[:12]}.jsa"


def jvm_options() -> str:
    """The JVM options that use the archive of Java classes; empty if there is none."""
    archive = archive_file()
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive is not None and is_there(archive) else ""


def advice(seconds: float) -> str | None:
    """The advice that an archive of Java classes would shorten the next start, for a start that took ``seconds``. It is
    given once per Spark and Java.

    None if there is an archive, if the start was fast, or if it cannot be recorded that the advice was given.
    """
    archive = archive_file()
    if archive is None:
        return None
    said = archive.with_suffix(".advised")
    if seconds < _SLOW_SECONDS or is_there(archive) or is_there(said):
        return None
    try:
        said.parent.mkdir(parents=True, exist_ok=True)
        said.touch()
    except OSError:
        return None
    return f'Spark took {seconds:.0f} s to start; "{COMMAND}", run once, about halves that. (This is said once.)'
