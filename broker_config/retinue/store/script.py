"""A Lua script with the digest the server knows it by."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script, ready to be called by its digest.

    Args:
        name: What logs and errors call it, e.g. ``launch``.
        body: The script's full text.
        sha: Lowercase hex SHA-1 of ``body``, as EVALSHA wants it.
    """

    name: str
    body: str
    sha: str

    @classmethod
    def from_text(cls, name: str, text: str) -> "Script":
        """Make a script of its text.

        Args:
            name: What logs and errors call it.
            text: The Lua source, including its ``#!lua`` line.
        """
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        return cls(name=name, body=text, sha=digest)
