"""The first rows of each key: Top-N by any order, deduplication, Top-N of windows."""
