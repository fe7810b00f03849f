"""What dbt imports as ``dbt.adapters.sqlstream``."""

from pathlib import Path

from dbt.adapters.base import AdapterPlugin

from sqlstream import dbt
from sqlstream.dbt.adapter import SqlStreamAdapter
from sqlstream.dbt.connections import SqlStreamConnectionManager, SqlStreamCredentials

__all__ = ["Plugin", "SqlStreamAdapter", "SqlStreamConnectionManager", "SqlStreamCredentials"]

Plugin = AdapterPlugin(
    adapter=SqlStreamAdapter,
    credentials=SqlStreamCredentials,
    include_path=str(Path(str(dbt.__file__)).parent / "include"),
    project_name="dbt_sqlstream",
)
