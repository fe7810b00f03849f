"""The modules that Spark's workers cannot import and that are therefore sent by value."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from sqlstream.udfs import columnar

_INSTALLED = tuple(Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def modules_to_ship(implementation: object) -> tuple[ModuleType, ...]:
    """The loaded modules in the folder of the module that defines ``implementation``, unless that module is
    installed."""
    module = inspect.getmodule(implementation)
    folder = _folder(module) if module is not None else None
    if folder is None or _installed(folder):
        return (columnar,)
    beside = (m for m in tuple(sys.modules.values()) if _is_below(m, folder))
    return (columnar, *beside)


def _folder(module: ModuleType) -> Path | None:
    """The directory on the path that the module was found in."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    depth = module.__name__.count(".") + (1 if hasattr(module, "__path__") else 0)
    return Path(file).resolve().parents[depth]


def _installed(folder: Path) -> bool:
    return any(folder.is_relative_to(root) for root in _INSTALLED)


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] in ("__main__", "sqlstream"):
        return False
    path = Path(file).resolve()
    return path.is_relative_to(folder) and not _installed(path)
