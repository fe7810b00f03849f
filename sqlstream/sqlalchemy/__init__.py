"""The dialect ``sqlstream://`` of SQLAlchemy 2, which must be installed: ``pip install 'sqlstream[sqlalchemy]'``.
It works with 1.4.54, too, which Superset has.

SQLAlchemy finds it by its entry point; nothing else of the product imports this room.
"""

from sqlstream.sqlalchemy.compiler import INTERVAL, MAP, STRUCT, TINYINT, VARIANT
from sqlstream.sqlalchemy.dialect import SqlStreamDialect

__all__ = ["INTERVAL", "MAP", "STRUCT", "TINYINT", "VARIANT", "SqlStreamDialect"]
