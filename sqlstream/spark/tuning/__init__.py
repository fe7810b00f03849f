"""What we do to Spark and its processes beyond Spark's own settings, so that it is fast and quiet.

Each measure is optional, has a setting of ``sqlstream.spark.*``, and costs only speed where it fails.
"""
