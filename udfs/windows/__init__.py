"""Window kernels: the general operator, and faster ones for what most queries do."""
