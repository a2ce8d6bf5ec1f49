"""`retinue up`: a store, workers and the HTTP API under one supervisor."""
