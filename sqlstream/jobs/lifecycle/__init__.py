"""The life of a job: its start, its query, its epochs, its failures and restarts, its end."""
