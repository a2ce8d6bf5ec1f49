"""Webhooks: ends of runs are told to URLs, signed and at least once, by the processes of the API."""
