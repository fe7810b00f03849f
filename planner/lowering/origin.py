"""The origin of a row, for messages, at no cost while rows are good."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def of_file() -> Column:
    """`` of file "/data/a.json"``, the file that the task is reading; an empty text where it reads none.

    An expression with it stays where it stands: Spark moves none that names the file.
    """
    name = F.input_file_name()
    return F.when(name == "", "").otherwise(F.concat(F.lit(' of file "'), path_of(name), F.lit('"')))


def path_of(name: Column) -> Column:
    """The path as users write it, of a URL of Spark's such as ``file:///data/a%20b.json``."""
    return F.url_decode(F.regexp_replace(F.regexp_replace(name, "^file:/+", "/"), r"\+", "%2B"))
