"""The planner as a library: ``sqlstream.planner.Planner`` and its answers. Nothing here needs Spark."""

from sqlstream.analysis.answers import (
    Analysis,
    Edit,
    Fix,
    FunctionUse,
    Hover,
    OutputColumn,
    Parameter,
    Problem,
    Pushed,
    Role,
    StatementAnalysis,
    StateNeed,
    TableUse,
    Transpiled,
)
from sqlstream.analysis.planner import Planner

__all__ = [
    "Analysis", "Edit", "Fix", "FunctionUse", "Hover", "OutputColumn", "Parameter", "Planner", "Problem", "Pushed",
    "Role", "StateNeed", "StatementAnalysis", "TableUse", "Transpiled",
]  # fmt: skip
