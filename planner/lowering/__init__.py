"""Plan to Spark: one lowering function per plan node (``functools.singledispatch``)."""
