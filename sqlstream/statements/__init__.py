"""What statements do that run no job: definitions, SHOW, DESCRIBE, EXPLAIN, checks, and statements about jobs."""
