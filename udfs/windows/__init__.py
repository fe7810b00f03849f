"""Window kernels: the general operator, and faster ones for the most common windows."""
