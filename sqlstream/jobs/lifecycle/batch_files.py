"""Which files a micro-batch has read, for errors of rows that do not say where they come from.

Spark names the file of a row only where nothing stands between, and naming it would keep Spark from moving conditions
down to the files. Spark's checkpoint lists the files of each micro-batch.
"""

from __future__ import annotations

import json
from contextlib import suppress

from sqlstream.jobs.checkpoints.storage import LocalStorage, local_storage_at
from sqlstream.jobs.records.history import last_begun
from sqlstream.udfs.listed_files import files_of

_SHOWN = 3


def read_last(checkpoint: str) -> str | None:
    """A sentence with the files of the newest micro-batch of a checkpoint on this machine; None where it has none."""
    here = local_storage_at(checkpoint) if checkpoint else None
    files = sorted(set(_files(here))) if here is not None else []
    if not files:
        return None
    names = [f'"{file}"' for file in files[:_SHOWN]]
    more = len(files) - len(names)
    if len(files) == 1:
        return f"The micro-batch has read file {names[0]}."
    last = f"{more} more" if more else names.pop()
    return f"The micro-batch has read the files {', '.join(names)} and {last}."


def _files(here: LocalStorage) -> list[str]:
    """Those that the job writes itself, such as control rows, left out; none where logs are damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        begun = last_begun(here)
        if begun is not None:
            return [file for file in files_of(here.root / "spark", begun) if not file.startswith(f"{here.root}/")]
    return []
