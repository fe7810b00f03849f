"""Spark's settings with secrets, kept off the command line of Java, which all users of a machine can read.

PySpark starts Java with all settings on its command line. So we start Java first, without the private ones: it gets
these in files that only this user can read and that are removed when it runs, and Spark gets them from PySpark.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlstream.secrets import NO_SECRETS, Secrets, shown_value
from sqlstream.spark import internals

JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
"""These become a part of the command line itself: it names a file with them (``java @file``)."""

_ELSEWHERE = ("PYSPARK_GATEWAY_PORT", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
"""Set where another process has started Java, or where PySpark needs none."""
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_FILE = "--properties-file"
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\ =:#!"} | {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def start_java(settings: Mapping[str, str], secrets: Secrets = NO_SECRETS) -> None:
    """Starts the JVM of this process in a way that hides the settings from other users. Only if it does not run yet and
    a setting holds a secret.

    ``secrets`` has further secret values, which the names of the settings do not reveal.
    """
    private = {k: v for k, v in settings.items() if is_private(k, v, secrets)}
    if not private or any(name in os.environ for name in _ELSEWHERE):
        return
    public = {k: v for k, v in settings.items() if k not in private}
    with _folder() as folder, _submitted(folder, {k: v for k, v in private.items() if k not in JAVA_OPTIONS}):
        public |= {k: _java_options(folder / k, v) for k, v in private.items() if k in JAVA_OPTIONS}
        internals.start_java(public)


def is_private(key: str, value: str, secrets: Secrets = NO_SECRETS) -> bool:
    """True where the value of a setting must not be shown."""
    return shown_value(key, value) != value or secrets.show_in(value)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that other users cannot read."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-start-") as name:
        yield Path(name)


def _java_options(file: Path, options: str) -> str:
    """The JVM option that reads the options from a file."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in shlex.split(options))
    _write(file, "\n".join(f'"{text}"' for text in quoted))
    return f"@{file}"


@contextmanager
def _submitted(folder: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """The file of settings that Java reads at its start, for instance to load jars from other machines.

    A file that the user names is used alone.
    """
    before = os.environ.get(_ARGUMENTS)
    if _FILE in (before or ""):
        yield
        return
    file = folder / "spark.properties"
    _write(file, properties_text(settings))
    os.environ[_ARGUMENTS] = f"{_FILE} {shlex.quote(str(file))} --load-spark-defaults {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        del os.environ[_ARGUMENTS]
        if before is not None:
            os.environ[_ARGUMENTS] = before


def properties_text(settings: Mapping[str, str]) -> str:
    """The settings as text of a Java properties file."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    units = text.translate(_ESCAPES).encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[offset : offset + 2]) for offset in range(0, len(units), 2))
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)


def _write(file: Path, text: str) -> None:
    file.touch(0o600, exist_ok=False)
    file.write_text(text, encoding="utf-8")
