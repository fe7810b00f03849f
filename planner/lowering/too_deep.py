"""Expressions that are nested more deeply than the stack of Spark's threads holds."""

from __future__ import annotations

from sqlstream.errors import Diagnostic

TOO_DEEP_FOR_SPARK = "SS284"

_MARKS = ("java.lang.StackOverflowError", "FAILED_TO_PARSE_TOO_COMPLEX")
_HINT = (
    "Split long sums and nested calls into computed columns of several queries, or give the threads of Spark's driver "
    "a larger stack: 'spark.driver.extraJavaOptions' = '-Xss64m'."
)


def too_deep_for_spark(text: str) -> Diagnostic | None:
    """The mistake, where the text of an exception, with its stack of Java, tells of an exhausted stack."""
    if not any(mark in text for mark in _MARKS):
        return None
    return Diagnostic(TOO_DEEP_FOR_SPARK, "the query is nested too deeply for Spark", hint=_HINT)
