"""Which state a job may go on from: what it depends on, how it is laid out, and whose it is."""
