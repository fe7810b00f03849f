"""The one error where only the planner is installed (the distribution ``sqlstream-planner``) and more is asked for."""

from __future__ import annotations

from sqlstream.errors import ExecutionError

MISSING_PACKAGE = "SS482"

BEYOND_PLANNING = frozenset(
    {"google", "pandas", "platformdirs", "plotext", "prometheus_client", "prompt_toolkit", "py4j", "pyspark"}
)
"""Modules of packages that ``sqlstream`` depends on, and ``sqlstream-planner`` does not."""


def lack_of(error: BaseException) -> ExecutionError | None:
    """Returns the error SS482 for an import that failed because only the planner is installed; None for others."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module not in BEYOND_PLANNING:
        return None
    return ExecutionError(
        MISSING_PACKAGE,
        f'the Python package of module "{module}" is not installed: statements can be planned, but not run',
        hint="pip install sqlstream. The package sqlstream-planner alone checks, explains and formats statements.",
    )
