"""This package as an archive for Spark's workers, which then need no installation.

Python imports from the archive as from a folder. It includes compiled modules for this version of Python, so that
workers do not compile them again.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING

from sqlstream import version
from sqlstream.errors import ExecutionError
from sqlstream.paths import cache_folder, made, temporary_folder
from sqlstream.spark.running import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NOT_SENT = "SS495"

_MESSAGE = "Spark does not take the package for its workers"

# Streaming queries run in a copy of the session. With artifacts apart by session, Spark plans its micro-batches as if
# there were none of that session, and workers look for the package where it is not.
_APART = "spark.sql.artifact.isolation.enabled"

_LEFT_OUT = ("cli", "shell", "testing")
"""Parts that only somebody at a terminal or in a test needs."""
_ROOMS = ("grammar", "planner", "udfs")
"""Packages inside this one whose files a checkout has elsewhere, where the import system finds them."""
_KINDS = (".py", ".lark")


def worker_package() -> Path:
    """The archive of the package for workers, made once for its contents and cached in the user's folder."""
    root = Path(version.__file__).parent
    if not root.is_dir():
        return _archive_around(root)
    sources = dict(_sources(root))
    file = _folder() / f"sqlstream-{version.__version__}-{_digest(sources)}.zip"
    if not file.is_file():
        _write(file, sources)
    return file


def send_package(spark: SparkSession) -> None:
    """Send the package to the workers of a session, unless they run on this machine as part of it.

    ExecutionError SS495 where Spark does not accept it.
    """
    path_before = list(sys.path)
    try:
        if is_connect(spark):
            spark.conf.set(_APART, "false")
            spark.addArtifacts(str(worker_package()), pyfile=True)
        elif not _on_this_machine(spark.sparkContext.master or ""):
            spark.sparkContext.addPyFile(str(worker_package()))
    except Exception as error:
        hint = "Install sqlstream for the Python of Spark's workers, or ask who runs Spark to allow artifacts."
        raise ExecutionError(NOT_SENT, _MESSAGE, detail=str(error), hint=hint) from error
    finally:
        sys.path[:] = path_before  # PySpark would have this process import from the archive, too


def _on_this_machine(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _archive_around(root: Path) -> Path:
    """The archive that the package itself is imported from."""
    return next(parent for parent in root.parents if parent.is_file())


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    """All files of the package, by their names in the archive."""
    yield from _files(root, "sqlstream", left_out=(*_LEFT_OUT, *_ROOMS))
    for room in _ROOMS:
        spec = importlib.util.find_spec(f"sqlstream.{room}")
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(f"the package sqlstream.{room} is not installed")
        yield from _files(Path(spec.submodule_search_locations[0]), f"sqlstream/{room}")


def _files(root: Path, prefix: str, left_out: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """The files of a folder and its subfolders, except the subfolders ``left_out``."""
    for folder, inside, names in os.walk(root):
        kept = [name for name in inside if Path(folder) != root or name not in left_out]
        inside[:] = sorted(kept)
        relative = Path(folder).relative_to(root)
        yield from (
            ((Path(prefix) / relative / name).as_posix(), Path(folder, name))
            for name in sorted(names)
            if name.endswith(_KINDS)
        )


def _digest(sources: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, path in sources.items():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def _folder() -> Path:
    folder = made(cache_folder())
    if folder is None:
        folder = temporary_folder("sqlstream-package-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write(file: Path, sources: Mapping[str, Path]) -> None:
    """Write a file atomically, because other processes may write it at the same time."""
    handle, fresh = tempfile.mkstemp(prefix=".sqlstream-", dir=file.parent)
    with (
        tempfile.TemporaryDirectory(prefix="sqlstream-compiled-") as compiled,
        os.fdopen(handle, "wb") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, path in sources.items():
            archive.writestr(name, path.read_bytes())
            if path.suffix == ".py":
                archive.writestr(f"{name}c", _compiled(path, Path(compiled)))
    Path(fresh).replace(file)


def _compiled(path: Path, folder: Path) -> bytes:
    """The bytecode of a module as Python caches it, valid without its source."""
    file = folder / "module.pyc"
    py_compile.compile(str(path), str(file), doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return file.read_bytes()
