"""The files of a micro-batch, as Spark's checkpoint lists them: Spark drops those that are gone when it reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlstream.udfs.readable_files import require_readable, vanished


@dataclass(frozen=True)
class ListedFiles:
    """``logs``: the directory ``sources`` of Spark's checkpoint; ``root``: what the paths of the table's files begin
    with. ``skips``: files that are gone are counted, else an error.
    """

    table: str
    logs: str
    root: str
    format: str
    skips: bool = False

    @property
    def is_pending(self) -> bool:
        """True where the newest micro-batch has begun, and is not complete."""
        begun, complete = (self._numbers(name) for name in ("offsets", "commits"))
        return max(begun, default=-1) > max(complete, default=-1)

    def _numbers(self, name: str) -> list[int]:
        folder = Path(self.logs).parent / name
        return [int(file.name) for file in folder.glob("[0-9]*") if file.name.isdigit()]

    def gone(self) -> int:
        """How many files of the newest micro-batch are gone. SS529 where that is an error, SS528 at a torn one."""
        count = 0
        for path in sorted(set(self._newest())):
            if os.path.lexists(path):
                require_readable(path, self.format)
            elif self.skips:
                count += 1
            else:
                raise vanished(path, self.table)
        return count

    def _newest(self) -> Iterator[str]:
        own = str(Path(self.logs).parent.parent)
        for source in sorted(Path(self.logs).glob("*")):
            for path in _newest_of(source):
                if path.startswith(self.root) and not path.startswith(f"{own}/"):
                    yield path


def _newest_of(source: Path) -> list[str]:
    """The files that the newest entry of a source's log lists."""
    names = ((file, re.fullmatch(r"(\d+)(\.compact)?", file.name)) for file in source.iterdir())
    logs = {int(found[1]): file for file, found in names if found is not None}
    if not logs:
        return []
    newest = max(logs)
    entries = [json.loads(line) for line in logs[newest].read_text().splitlines() if line.startswith("{")]
    return [unquote(urlsplit(e["path"]).path) for e in entries if "path" in e and e.get("batchId") == newest]
