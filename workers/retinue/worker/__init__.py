"""The worker: Celery receives wake-ups, and the runs they name are executed on one event loop.

`celery -A retinue.worker worker` finds the app in `retinue.worker.celery`. Importing this package alone
imports nothing of Celery.
"""

__all__: list[str] = []
