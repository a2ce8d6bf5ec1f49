"""What keeps a worker process in order: its lease, its patience with the store, its drain, its end."""
