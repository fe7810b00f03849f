"""Syntax to plan: binder, plan nodes, rules, explain; ``planner.lowering`` makes Spark DataFrames of plans."""
