"""Systems that lookups ask, each with a frozen source and a client."""
