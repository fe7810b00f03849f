"""OVER aggregation: for every row, functions over a frame of rows of its key."""
