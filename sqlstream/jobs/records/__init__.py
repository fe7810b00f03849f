"""The records by which other processes see a job, and the requests that they send to it."""
