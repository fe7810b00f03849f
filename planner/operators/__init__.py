"""One room per operator: its node, and what every part of the planner knows of it.

A module here registers its node with the functions that ask (``properties``, ``describe``, ``pruned``, …). Importing
this package finds all of them.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
