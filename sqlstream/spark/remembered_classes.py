"""Classes of Java as PySpark finds them: by name, for each column and each DataFrame.

py4j asks Java for a class each time it is named, and for each of its static methods; for a short name, such as
``PythonUtils``, Java looks through all its jars. The start of a query names some 250 of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView

from sqlstream.spark.internals import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remember_classes(spark: SparkSession) -> None:
    """Lets a session's view of Java ask for each class and static method once. Does nothing for Spark Connect."""
    view = java_of(spark)
    if type(view) is JVMView:
        view.__class__ = _RememberingView  # PySpark's own objects hold this view already


class _RememberingView(JVMView):  # type: ignore[misc] # py4j has no annotations
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if type(found) is JavaClass:
            found = _RememberingClass(found._fqn, self._gateway_client)
            setattr(self, name, found)
        return found


class _RememberingClass(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if type(found) is JavaMember:
            setattr(self, name, found)
        return found
