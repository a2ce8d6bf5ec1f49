"""Between the store and Celery: settings, the app, queues, wake-ups, the embedded Valkey, the reaper.

Nothing is imported here: an application that only enqueues needs few of the modules.
"""

__all__: list[str] = []
