"""All that we do to Spark, and to the processes it runs in, so that it is fast and quiet: beyond Spark's own settings.

Each of these is optional, has a setting of ``sqlstream.spark.*``, and costs speed alone where it fails.
"""
