"""OVER aggregation: for every row, functions over the rows of its key that are around it in time."""
