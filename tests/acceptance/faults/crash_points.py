"""Where workers are killed: before and after each script with which they write, each model call, tool call
and wake-up; where a turn does the same several times, in the middle of it as well.
"""

from __future__ import annotations

RUNS = (
    "before-claim", "after-claim",
    "before-boundary", "after-boundary",
    "before-acquire_place", "after-acquire_place",
    "before-model", "after-model",
    "before-renew_place", "after-renew_place",
    "before-release_place", "after-release_place",
    "before-take_over",  # another one must die for it, so these two do not come together
    "before-record_model", "after-record_model",
    "before-tool", "after-tool",
    "before-free_places",  # likewise
    "before-tool:3", "after-tool:3",
    "after-take_over",
    "after-free_places",
    "before-record_tool_result", "after-record_tool_result",
    "before-record_tool_result:4", "after-record_tool_result:4",
    "before-launch", "after-launch",
    "before-launch:2", "after-launch:3",
    "before-suspend", "after-suspend",
    "before-begin_approved", "after-begin_approved",
    "before-handoff", "after-handoff",
    "before-steer", "after-steer",
    "before-cancel", "after-cancel",
    "before-sweep", "after-sweep",
    "before-note", "after-note",
    "before-wakeup", "after-wakeup",
    "before-finish", "after-finish",
    "before-take_out", "after-take_out",
    "before-told", "after-told",
)  # fmt: skip
"""Of what runs do, and of taking over those of a dead worker."""

REAPER = (
    "before-elect", "after-elect",
    "before-timer", "after-timer",
    "before-rewake", "after-rewake",
    "before-no_worker", "after-no_worker",
    "before-forget_queue", "after-forget_queue",
)  # fmt: skip
"""Of what only the elected reaper does."""

STOPPING = (
    "drain/before-hand_back", "drain/after-hand_back",
    "drain/before-note_draining", "drain/after-note_draining",
    "cut/before-take_over", "cut/after-take_over",
)  # fmt: skip
"""Of a worker that stops, with the time it needs or with none."""

ALL = (*RUNS, *REAPER, *STOPPING)

OF_CLIENTS = frozenset(
    {
        "add_webhook",
        "admit",
        "admit_key",
        "answer",
        "begin_request",
        "decide",
        "discard",
        "drop_webhook",
        "enable_webhook",
        "end_request",
        "interrupt",
        "post_deliveries",
        "purge",
        "raise_budget",
        "record_delivery",
        "redeliver",
        "release_lane",
        "revoke_key",
        "rotate_secret",
        "take_lane",
    }
)
"""Scripts that no worker sends. test_killed_clients.py has points of answer, decide, discard, interrupt and
raise_budget; a purge is broken off in integration/client/test_purging.py, a request with a key in
acceptance/http/test_idempotency.py, a delivery in acceptance/http/test_webhooks.py; the others are one step
each, and have none.
"""
