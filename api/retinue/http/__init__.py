"""The HTTP API and its page: the lifecycle for applications that are not Python, and for people."""

from .app import create_app

__all__ = ["create_app"]
