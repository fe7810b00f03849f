"""Text to syntax: sqlglot reads SQL, lark the streaming clauses and statements (``streaming.lark``)."""
