"""The lifecycle facade over the HTTP API: the same contract, without a way to the store.

Imported where a facade is made with a url, and nowhere else: it needs httpx2.
"""

from .async_facade import AsyncHttpLifecycle
from .facade import HttpLifecycle

__all__ = ["AsyncHttpLifecycle", "HttpLifecycle"]
