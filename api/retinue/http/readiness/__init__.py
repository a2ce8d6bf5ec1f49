"""Whether this service may be sent work: its store, and workers that answer canaries."""
