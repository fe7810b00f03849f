"""Files rewritten as a whole: whoever opens one finds the old text or the new one, also after a crash."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click


def replace_text(file: Path, text: str) -> None:
    """Put the text, as UTF-8, in place of what is in the file, whose permissions stay. A usage error where that fails.

    Of a symbolic link the file is replaced that it points to.
    """
    target = file.resolve()
    fresh: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        fresh = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copymode(target, fresh)
        fresh.replace(target)
    except OSError as error:
        if fresh is not None:
            fresh.unlink(missing_ok=True)
        raise click.UsageError(f'cannot write "{file}": {error.strerror or error}') from error
