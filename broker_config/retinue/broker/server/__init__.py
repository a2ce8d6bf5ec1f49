"""Whether a server can hold the truth, and at which durability."""
