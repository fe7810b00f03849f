"""Where a row comes from, for messages: nothing that costs while rows are good."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def of_file() -> Column:
    """`` of file "/data/a.json"``, the file that the task is reading; an empty text where it reads none.

    An expression with it stays where it stands: Spark moves none that names the file.
    """
    name = F.input_file_name()
    local = F.regexp_replace(name, "^file:/+", "/")
    path = F.url_decode(F.regexp_replace(local, r"\+", "%2B"))
    return F.when(name == "", "").otherwise(F.concat(F.lit(' of file "'), path, F.lit('"')))
