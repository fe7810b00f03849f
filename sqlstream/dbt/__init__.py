"""dbt on sqlstream: the adapter, on the DB-API, and its macros.

dbt finds it as ``dbt.adapters.sqlstream``, which the wheel makes of the folder ``plugin``. Nothing of the product
imports this package, and it alone imports dbt, which is in no environment of ours (``sqlstream[dbt]``).
"""
