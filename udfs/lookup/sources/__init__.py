"""Systems that lookups can ask, each with a frozen source and a client."""
