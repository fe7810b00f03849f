"""Small files under a checkpoint directory: on this machine directly, elsewhere through Spark."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sqlstream.errors import ExecutionError, repeating
from sqlstream.secrets import shown_value
from sqlstream.spark.running import shares_files
from sqlstream.udfs.texts import json_of, reason_of

# --- Errors of files: damaged, missing, unreadable, not writable -----------------------------------------------


DAMAGED = repeating("SS459")
DISK_FULL = "SS465"
CANNOT_WRITE = "SS416"
CANNOT_READ = "SS417"
_LONGEST_SHOWN = 100

NO_SPACE = re.compile(r"(No space left on device|Disk quota exceeded|File too large)")

START_ANEW = "start from a savepoint ('execution.state-recovery.path') or in a new directory"
RESTORE_HINT = f"Give it back from a copy, or {START_ANEW}."


def damaged(path: object, detail: str, hint: str = RESTORE_HINT) -> ExecutionError:
    """Returns the error SS459 for a file whose content was not written by a job."""
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is damaged', detail=detail, hint=hint)


def missing(path: object) -> ExecutionError:
    """Returns the error SS459 for a file that is missing in a checkpoint."""
    return ExecutionError(DAMAGED, f'file "{path}" of a checkpoint is missing', hint=RESTORE_HINT)


def is_json(text: str | bytes) -> bool:
    """True if a text is valid JSON."""
    try:
        json_of(text)
    except ValueError:
        return False
    return True


def disk_full(reason: str) -> ExecutionError:
    """Returns the error SS465 for a full disk; ``reason`` is the operating system's message."""
    hint = "Make room, then start the job again."
    return ExecutionError(DISK_FULL, f"a disk that the job writes to is full: {reason}", hint=hint)


def cannot_write(path: object, error: OSError | ValueError) -> ExecutionError:
    """Returns the error SS416 for a path that cannot be written; ``error`` is the cause."""
    hint = "Look at the permissions and the place of its directory, or give the job another one."
    return ExecutionError(CANNOT_WRITE, f'"{_beginning(path)}" cannot be written: {reason_of(error)}', hint=hint)


def cannot_read(path: object, error: OSError | ValueError) -> ExecutionError:
    """Returns the error SS417 for a path that cannot be read; ``error`` is the cause."""
    hint = "Look at its permissions: a job, and whoever asks for it, reads all files of its checkpoint."
    return ExecutionError(CANNOT_READ, f'"{_beginning(path)}" cannot be read: {reason_of(error)}', hint=hint)


def _beginning(path: object) -> str:
    """The path, cut where it is too long for a message."""
    text = str(path)
    return text if len(text) <= _LONGEST_SHOWN * 2 else f"{text[:_LONGEST_SHOWN]}…"


@contextmanager
def write_errors_reported(path: object) -> Iterator[None]:
    """A context manager: errors of writing ``path`` inside it become ExecutionError SS465 for a full disk, SS416 for
    any other cause.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        full = NO_SPACE.search(str(error))
        raise (cannot_write(path, error) if full is None else disk_full(full[1])) from error


NO_FILE_SYSTEM = "SS688"
_UNKNOWN = re.compile(r"No FileSystem for scheme|Class (?:org\.apache\.hadoop|com\.google)\.\S+ not found")
_JARS = {
    "s3": "Write s3a://… in place of s3://…, and bring its jar: org.apache.hadoop:hadoop-aws",
    "s3a": "Bring its jar: org.apache.hadoop:hadoop-aws",
    "gs": "Bring its jar: com.google.cloud.bigdataoss:gcs-connector",
    "abfss": "Bring its jar: org.apache.hadoop:hadoop-azure",
}


@contextmanager
def file_systems_named(root: str) -> Iterator[None]:
    """A context manager: where Spark does not know the file system of a checkpoint, it raises ExecutionError SS688.
    Spark writes its own files there, so none of ours can stand in for it.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if _UNKNOWN.search(str(error)) is None:
            raise
        scheme = urlparse(root).scheme
        jar = _JARS.get(scheme, f"Bring the jar that knows {scheme}://")
        hint = (
            f"{jar}, with 'spark.jars.packages' when the session starts; or take a directory that all machines mount."
        )
        message = f'Spark does not know the file system of the checkpoint "{shown_value("path", root)}"'
        raise ExecutionError(NO_FILE_SYSTEM, message, hint=hint) from None


@dataclass(frozen=True)
class StoredFile:
    """The size of a file in bytes, and the time of its last change in seconds since 1970."""

    size: int
    time: float


class Storage(Protocol):
    """Stores texts under relative paths, such as the files of a checkpoint. Each write is atomic.

    Raises ExecutionErrors: SS459 for a file that is not text, SS465 for a full disk, SS416 where a text cannot be
    written, SS417 where it cannot be read. A missing file is no error.
    """

    can_remove: bool

    def location(self, path: str = "") -> str:
        """The absolute path or URL for a relative path, under which Spark reads or writes it."""
        ...

    def read(self, path: str) -> str | None:
        """The text at a path; None where there is none."""
        ...

    def write(self, path: str, text: str) -> None:
        """Writes a text, replacing the one at that path."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder: Spark's file source requires its directory."""
        ...

    def texts(self, pattern: str) -> Mapping[str, str]:
        """Returns a dictionary from path to text, for all texts whose paths match. ``*`` stands for any part of one
        name.
        """
        ...

    def files(self, folder: str) -> Mapping[str, StoredFile]:
        """Returns a dictionary from path, relative to ``folder``, to size and time of all files below it. Hidden ones,
        whose names start with a dot or an underscore, are left out.
        """
        ...

    def remove(self, path: str) -> None:
        """Removes a text, or a folder with its contents, if it exists. Of a symbolic link, only the link is removed.
        Must be called only if ``can_remove``.
        """
        ...


def storage_at(root: str, spark: SparkSession) -> Storage:
    """The storage of a checkpoint: local for paths and ``file:`` URLs, unless Spark runs on another machine
    (Connect)."""
    local = local_storage_at(root)
    if local is None or not shares_files(spark):
        return SparkStorage(root.rstrip("/"), spark)
    return local


def local_storage_at(root: str) -> LocalStorage | None:
    """The storage of a path or a ``file:`` URL; None for all other URLs."""
    url = urlparse(root)
    if url.scheme not in ("", "file"):
        return None
    return LocalStorage(Path(unquote(url.path) if url.scheme else root).absolute())


@dataclass(frozen=True)
class LocalStorage:
    """Files of this machine below ``root``. Links that lead out of it are not followed when writing."""

    root: Path
    can_remove = True

    def location(self, path: str = "") -> str:
        """The path as a ``file:`` URL."""
        return f"file://{self.root / path}"  # Spark takes paths as they are, without the escapes of a URL

    def read(self, path: str) -> str | None:
        """The text at a path; None where there is none."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise damaged(self.root / path, "It is not UTF-8 text.") from error
        except (OSError, ValueError) as error:
            raise cannot_read(self.root / path, error) from None

    def write(self, path: str, text: str) -> None:
        """Write a text to a hidden file, flush it to the disk, and rename it."""
        target = self.root / path
        hidden = target.with_name(f".{target.name}")  # Spark's file source skips names with a dot
        with write_errors_reported(self.root / path):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not self._is_inside(target.parent):
                raise OSError(ELOOP, "a link leads out of the folder of the job")
            with open(hidden, "w", encoding="utf-8", opener=_not_through_links) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(target)

    def make_folder(self, path: str) -> None:
        """Make a folder where there is none."""
        with write_errors_reported(self.root / path):
            (self.root / path).mkdir(parents=True, exist_ok=True)

    def texts(self, pattern: str) -> Mapping[str, str]:
        """Returns a dictionary from path to text, for all texts whose paths match. Hidden files and those that only a
        link leads to are left out.
        """
        try:
            paths = [path for path in self.root.glob(pattern) if path.is_file() and not _is_hidden(path)]
            paths = [path for path in paths if self._is_inside(path.parent)]
        except (OSError, ValueError) as error:
            raise cannot_read(self.root, error) from None
        names = sorted(str(path.relative_to(self.root)) for path in paths)
        texts = ((path, self._text(path)) for path in names)
        return {path: text for path, text in texts if text is not None}

    def _is_inside(self, folder: Path) -> bool:
        """False where a link leads out of the folder: texts are removed when they have been read."""
        return folder.resolve().is_relative_to(self.root.resolve())

    def _text(self, path: str) -> str | None:
        """As ``read``; a file that is not UTF-8 does not keep the others from being read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise cannot_read(self.root / path, error) from None

    def files(self, folder: str) -> Mapping[str, StoredFile]:
        """Returns a dictionary from path, relative to ``folder``, to size and time of all files below it that are not
        hidden.
        """
        return dict(_files(self.root / folder, ""))

    def remove(self, path: str) -> None:
        """Removes a text, or a folder with its contents, if it exists. Of a symbolic link, only the link is removed."""
        target = self.root / path
        with write_errors_reported(target), suppress(FileNotFoundError, NotADirectoryError):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()


@dataclass(frozen=True)
class SparkStorage:
    """Texts on a file system that only Spark reaches: each is a directory with one file."""

    root: str
    spark: SparkSession
    can_remove = False

    def location(self, path: str = "") -> str:
        """The path that Spark reads or writes: below the root."""
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> str | None:
        """The text at a path; None where there is none."""
        try:
            with file_systems_named(self.root):
                rows = self.spark.read.text(self.location(path), wholetext=True).collect()
        except AnalysisException:
            return None
        return "".join(str(row[0]) for row in rows).rstrip("\n")

    def write(self, path: str, text: str) -> None:
        """Write a text as a directory with one file."""
        rows = self.spark.createDataFrame([(text,)], "value STRING").coalesce(1)
        with file_systems_named(self.root):
            rows.write.mode("overwrite").text(self.location(path))

    def make_folder(self, path: str) -> None:
        """Make a folder where there is none, by writing an empty text into it."""
        if self.read(path) is None:
            self.write(f"{path}/created", "")

    def texts(self, pattern: str) -> Mapping[str, str]:
        """Returns a dictionary from path to text, for all texts whose paths match."""
        try:
            with file_systems_named(self.root):
                read = self.spark.read.text(self.location(pattern), wholetext=True)
            rows = read.select(F.col("_metadata.file_path"), "value").collect()
        except AnalysisException:
            return {}
        depth = len(PurePosixPath(pattern).parts)
        files = ((PurePosixPath(unquote(row[0])).parts[-depth - 1 : -1], row[1]) for row in rows)
        return {"/".join(parts): text.rstrip("\n") for parts, text in sorted(files)}

    def files(self, folder: str) -> Mapping[str, StoredFile]:
        """Returns a dictionary from path, relative to ``folder``, to size and time of all files below it."""
        try:
            read = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
            rows = read.load(self.location(folder)).select("path", "length", "modificationTime").collect()
        except AnalysisException:
            return {}
        start = f"{urlparse(self.location(folder)).path.rstrip('/')}/"
        return {
            unquote(urlparse(row[0]).path).removeprefix(start): StoredFile(row[1], row[2].timestamp()) for row in rows
        }

    def remove(self, path: str) -> None:
        """Always raises TypeError: Spark removes no files, so ``can_remove`` is False."""
        raise TypeError("Spark does not remove files")


def _not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _files(folder: Path, prefix: str) -> Iterator[tuple[str, StoredFile]]:
    """The files below a folder. Spark may remove old ones meanwhile."""
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith((".", "_"))]
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise cannot_read(folder, error) from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(folder / entry.name, f"{prefix}{entry.name}/")
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        yield f"{prefix}{entry.name}", StoredFile(status.st_size, status.st_mtime)
