"""Small files under a checkpoint directory: on this machine directly, elsewhere through Spark."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Storage(Protocol):
    """Texts by relative path. A text appears whole or not at all."""

    def location(self, path: str = "") -> str:
        """What Spark reads or writes at a relative path."""
        ...

    def read(self, path: str) -> str | None: ...

    def write(self, path: str, text: str) -> None: ...

    def make_folder(self, path: str) -> None:
        """Spark's file source wants its directory to be there."""
        ...


def storage_at(root: str, spark: SparkSession) -> Storage:
    """Local for paths and ``file:`` URLs, unless the session is one of Connect, whose files are the server's."""
    from sqlstream.spark import shares_files

    url = urlparse(root)
    if url.scheme not in ("", "file") or not shares_files(spark):
        return SparkStorage(root.rstrip("/"), spark)
    return LocalStorage(Path(unquote(url.path) if url.scheme else root).absolute())


@dataclass(frozen=True)
class LocalStorage:
    root: Path

    def location(self, path: str = "") -> str:
        return f"file://{self.root / path}"  # Spark takes paths as they are, without the escapes of a URL

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}")  # Spark's file source skips names with a dot
        with hidden.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(target)

    def make_folder(self, path: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class SparkStorage:
    """Each text is a directory with one file, as Spark writes it."""

    root: str
    spark: SparkSession

    def location(self, path: str = "") -> str:
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> str | None:
        try:
            rows = self.spark.read.text(self.location(path), wholetext=True).collect()
        except AnalysisException:
            return None
        return "".join(str(row[0]) for row in rows).rstrip("\n")

    def write(self, path: str, text: str) -> None:
        rows = self.spark.createDataFrame([(text,)], "value STRING").coalesce(1)
        rows.write.mode("overwrite").text(self.location(path))

    def make_folder(self, path: str) -> None:
        if self.read(path) is None:
            self.write(f"{path}/created", "")
