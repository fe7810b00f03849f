"""The best rows of each key: Top-N by any order, first and last rows, Top-N of windows."""
