"""The plan nodes of operators, with everything that the planner asks of them.

Importing this package imports all of them, so that ``Node.__subclasses__`` finds them.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
