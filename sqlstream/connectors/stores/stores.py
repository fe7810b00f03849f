"""The store of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream.connectors.stores.http import HttpFiles
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.options import given_options, is_in_store, is_of_web, scheme_of


def store_of(path: str, values: Mapping[str, Any]) -> ObjectStore | None:
    """The store in which the files of a table lie; None for paths of this machine, and for what Spark alone can reach.

    ``values``: the parsed options of the table, with the values of environment variables.
    """
    if not is_in_store(path):
        return None
    kind = HttpFiles if is_of_web(path) else ObjectStore
    skips = values.get("source.missing-files") == "skip"
    return kind(scheme_of(path) or "", tuple(given_options(values).items()), skips)
