"""Physical plan to Spark: one lowering function per node (``functools.singledispatch``).

Importing this package finds all of them.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from sqlstream.planner.lowering import columnar
from sqlstream.planner.lowering.lower import explain_spark, lower
from sqlstream.planner.lowering.runtime import Runtime

__all__ = ["Runtime", "explain_spark", "lower"]

for _module in (
    *pkgutil.iter_modules(__path__, f"{__name__}."),
    *pkgutil.iter_modules(columnar.__path__, f"{columnar.__name__}."),
):
    import_module(_module.name)
