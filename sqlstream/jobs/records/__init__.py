"""What a job tells other processes of itself, and what these ask of it."""
