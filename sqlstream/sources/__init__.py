"""What plans the micro-batches of sources, in a process that Spark starts with each query and each source.

Modules here import little, neither the planner nor pandas: until they are loaded, no row of the query is read.
"""
