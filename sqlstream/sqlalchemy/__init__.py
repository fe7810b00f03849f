"""The dialect ``sqlstream://`` of SQLAlchemy 2, which must be installed: ``pip install 'sqlstream[sqlalchemy]'``.

SQLAlchemy finds it by its entry point; nothing else of the product imports this room.
"""

from sqlstream.sqlalchemy.column_types import INTERVAL, MAP, STRUCT, TINYINT, VARIANT
from sqlstream.sqlalchemy.dialect import SqlStreamDialect

__all__ = ["INTERVAL", "MAP", "STRUCT", "TINYINT", "VARIANT", "SqlStreamDialect"]
