"""The dialect by name also where the checkout has been installed before it had one."""

from sqlalchemy.dialects import registry

registry.register("sqlstream", "sqlstream.sqlalchemy.dialect", "SqlStreamDialect")
