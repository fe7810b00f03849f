"""Kernels on Spark: the one adapter to ``transformWithState``. Only this package of ``udfs`` imports PySpark."""
