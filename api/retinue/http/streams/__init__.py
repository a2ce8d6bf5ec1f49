"""Event streams: many viewers on few connections to the store."""
