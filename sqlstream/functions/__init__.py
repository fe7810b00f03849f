"""The catalogue of built-in functions: which exist, how they are called, and what is known of each."""
