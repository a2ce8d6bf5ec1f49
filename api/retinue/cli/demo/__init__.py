"""`retinue demo`: its example, its stage and what it shows."""
