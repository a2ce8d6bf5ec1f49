"""Celery's side of a worker: its pool, what it receives, and what Flower and `celery control` are told."""
