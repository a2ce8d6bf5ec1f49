"""Signatures of webhooks against the reference of Standard Webhooks, and what is signed."""

from __future__ import annotations

import json

from retinue.contract import new_run_id
from retinue.http.webhooks.message import message_body
from retinue.http.webhooks.signing import signed_headers
from retinue.store.operations.deliveries import Delivery
from retinue.store.operations.webhooks import Secrets, new_secret

# The vector of the reference libraries (standard-webhooks, libraries/*/test).
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
SENT_AT = 1_614_265_330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_reference_vector_is_met() -> None:
    assert signed_headers(MESSAGE_ID, SENT_AT, BODY, [SECRET]) == {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_each_secret_gives_a_signature_the_current_first() -> None:
    other = new_secret()
    secrets = Secrets(SECRET, other, former_until_ms=1_000).signing(999)
    first, second = signed_headers(MESSAGE_ID, SENT_AT, BODY, secrets)["webhook-signature"].split(" ")
    assert first == SIGNATURE
    assert second.startswith("v1,")
    assert second != first


def test_a_changed_id_time_or_body_has_another_signature() -> None:
    made = {
        signed_headers(*words, [SECRET])["webhook-signature"]
        for words in (
            (MESSAGE_ID, SENT_AT, BODY),
            (MESSAGE_ID + "x", SENT_AT, BODY),
            (MESSAGE_ID, SENT_AT + 1, BODY),
            (MESSAGE_ID, SENT_AT, BODY + b" "),
        )
    }
    assert len(made) == 4


def test_secrets_are_random_and_in_no_repr() -> None:
    assert new_secret() != new_secret()
    assert "whsec" not in repr(Secrets(SECRET, SECRET))


def test_a_message_tells_which_run_ended_and_how_and_nothing_else() -> None:
    run_id = new_run_id(3)
    fields = {"ep": "wh_a", "run": run_id, "sess": "customer-42", "ag": "büro", "par": "", "rs": "FAILED"}
    delivery = Delivery("msg_1", {**fields, "cls": "WORKER_LOST", "fi": "1798761600250"})
    assert json.loads(message_body(delivery)) == {
        "type": "run.finished",
        "timestamp": "2027-01-01T00:00:00.250Z",
        "data": {
            "run_id": run_id,
            "session_id": "customer-42",
            "parent_id": None,
            "agent": "büro",
            "state": "FAILED",
            "error_classification": "WORKER_LOST",
        },
    }
