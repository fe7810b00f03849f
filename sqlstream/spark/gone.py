"""Whether the process of Spark has ended, by what PySpark raises then."""

from __future__ import annotations

import re

_NO_ANSWER = re.compile(r"Answer from Java side is empty|An error occurred while calling \S+")  # and no exception


def is_spark_gone(error: BaseException) -> bool:
    """True where nobody answers any more who runs Spark, which is a process of its own."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    return isinstance(error, Py4JError) and _NO_ANSWER.fullmatch(str(error)) is not None
