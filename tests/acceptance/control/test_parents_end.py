"""What a parent's end means to its live children, and what a cancel reports of tools that go on."""

from __future__ import annotations

import json

import pytest
from tests.acceptance.run_rig import RunRig

from retinue.client import SubagentLifecycle
from retinue.contract import SubagentHandle, SubagentState

SOON_S = 5.0


@pytest.mark.parametrize("ends", ["SUCCEEDED", "CANCELLED"])
@pytest.mark.parametrize("on_parent_end", ["cancel", "abandon"])
def test_live_children_follow_their_parents_end_or_are_abandoned(
    rig: RunRig, lifecycle: SubagentLifecycle, on_parent_end: str, ends: str
) -> None:
    word = f"{on_parent_end}-{ends}"
    script = rig.model.script("boss", when=lambda request: request.messages[0].text == word)
    call = {"task": f"child-{word}", "on_parent_end": on_parent_end}
    script.call("send_out", call).then("I go home.").hold(word)
    rig.model.script("hand", when=lambda request: request.messages[0].text == f"child-{word}").say(
        "done"
    ).hold(f"child-{word}")
    parent = lifecycle.launch(agent="boss", goal=word)
    child = SubagentHandle.from_dict(json.loads(rig.wait_for_trace(f"child-{word}.handle")))
    rig.model.wait_for(lambda model: model.in_flight("hand") > 0 and model.in_flight("boss") > 0)

    if ends == "CANCELLED":
        lifecycle.cancel(parent)
    else:
        rig.model.release(word)
    assert rig.result(lifecycle, parent, timeout_s=SOON_S).terminal_state == ends

    # A cancel is for the whole subtree, whatever its runs follow; an end only for those that follow it.
    if on_parent_end == "abandon" and ends == "SUCCEEDED":
        assert not lifecycle.wait(child, timeout_seconds=1.5).completed, "the reaper has looked, too"
        rig.model.release(f"child-{word}")
        rig.succeeded(lifecycle, child)
    else:
        assert rig.result(lifecycle, child, timeout_s=SOON_S).terminal_state is SubagentState.CANCELLED
        rig.model.wait_for(lambda model: model.in_flight() == 0)
