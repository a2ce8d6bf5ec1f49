"""How a facade reaches the store: connections, retries, and in which order, in two colours."""
