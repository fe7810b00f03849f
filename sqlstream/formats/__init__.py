"""Formats: how bytes of files and messages become columns, and columns become bytes, the same at every door.

A decoder reads one format without Spark: streams of files, finished data, lookups and messages give it blocks of bytes
and get Arrow columns, and a fault for each record that cannot be read.
"""
