"""Signatures of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

_SECRET_PREFIX: Final = "whsec_"


def signed_headers(message_id: str, sent_at: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The three headers that tell a receiver that a message is genuine, and fresh.

    Args:
        message_id: The same for each attempt, so that a repeat can be told.
        sent_at: When this attempt is made, in epoch seconds.
        body: Exactly as it is sent.
        secrets: Each `whsec_` and base64; each gives a signature.
    """
    signatures = [_signature(message_id, sent_at, body, secret) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": " ".join(signatures),
    }


def _signature(message_id: str, sent_at: int, body: bytes, secret: str) -> str:
    key = b64decode(secret.removeprefix(_SECRET_PREFIX))
    mac = hmac.new(key, f"{message_id}.{sent_at}.".encode() + body, hashlib.sha256)
    return "v1," + b64encode(mac.digest()).decode("ascii")
