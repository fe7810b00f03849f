"""Plans as people and tools read them: text, JSON, Mermaid, HTML; the stages of EXPLAIN that need no Spark."""

from sqlstream.planner.explain.stages import PLANNER_STAGES, explain, formats_of
from sqlstream.planner.explain.to_json import from_json, to_json

__all__ = ["PLANNER_STAGES", "explain", "formats_of", "from_json", "to_json"]
