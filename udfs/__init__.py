"""Python functions of users: what they take and return, calls over Arrow columns, shipping to workers."""
