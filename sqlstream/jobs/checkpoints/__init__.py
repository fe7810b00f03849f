"""The folder of a job: Spark's checkpoint, our small files beside it, and how both are read and written."""
