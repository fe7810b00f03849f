from __future__ import annotations

from pathlib import Path

from sqlstream.session import Session


def names_of(path: Path) -> list[tuple[int, int, str]]:
    return []


def run_unit_test(path: Path, index: int, session: Session) -> str | None:
    return None
