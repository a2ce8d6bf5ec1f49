"""The checks of a launch before anything is written, and what the store is then asked to write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retinue.agents.effective.effective import Inheritance
from retinue.agents.effective.grants import Grant
from retinue.broker.catalogue import AgentEntry, CatalogueSnapshot, WorkerEntry
from retinue.broker.settings import Settings
from retinue.client import ErrorCode, SubagentLaunchRequest, SubagentLifecycleError
from retinue.client.launching.planning import LaunchPlanner, Plan
from retinue.client.launching.ticket import GroupPlace, JoinedThread, Ticket
from retinue.client.parent import ParentBinding
from retinue.contract import Role, new_run_id

RUN = new_run_id(7)
EMPTY = CatalogueSnapshot({}, {}, {}, frozenset())
SNAPSHOT = CatalogueSnapshot(
    workers={},
    agents={
        "support": AgentEntry("support", model="gpt-5-mini", provider="openai", queue="desk"),
        "researcher": AgentEntry("researcher"),
        "teller": AgentEntry("teller", inputs=("customer_id", "policy")),
    },
    toolsets={"handbook": ("search_handbook",), "web": ("fetch",)},
    providers=frozenset({"openai"}),
)


def parent(**changes: Any) -> ParentBinding:
    fields = {
        "tenant": "_",
        "session_id": "s",
        "run_id": RUN,
        "epoch": 1,
        "token": "t",
        "iteration": 2,
        "call_index": 1,
        "root_id": RUN,
        "depth": 0,
        "max_depth": 4,
        "agent": "support",
        "role": Role.LEAF,
        "roster": ("researcher",),
        "grant": Grant(),
        "inheritance": Inheritance(model="gpt-5-mini"),
        "working_directory": None,
    }
    return ParentBinding(**{**fields, **changes})


def plan(
    request: dict[str, Any], *, snapshot: CatalogueSnapshot = SNAPSHOT, settings: Any = None, **options: Any
) -> Plan:
    planner = LaunchPlanner(Settings.read(**(settings or {})), None)
    parsed = SubagentLaunchRequest.parse({"goal": "g", **request})
    return planner.plan(parsed, snapshot, tenant="_", session_id="s", run_id=RUN, **options)


def fault(request: dict[str, Any], **options: Any) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        plan(request, **options)
    assert caught.value.mend
    return caught.value


@pytest.mark.parametrize(("agents", "lacks"), [(None, True), (["researcher"], True), (["support"], False)])
def test_a_run_that_no_live_worker_can_run_is_launched_as_such(agents: list[str] | None, lacks: bool) -> None:
    workers = {} if agents is None else {"p1": WorkerEntry("p1", agents=tuple(agents))}
    made = plan({"agent": "support"}, snapshot=replace(SNAPSHOT, workers=workers))
    assert made.new_run.lacks_worker is lacks
    assert made.new_run.queue == "desk"


def test_a_plan_holds_what_the_agent_advertises() -> None:
    made = plan({"agent": "support", "context": "It is urgent.", "priority": "low", "timeout_seconds": 1.5})
    run = made.new_run
    assert (run.queue, run.priority, run.timeout_ms, run.agent) == ("desk", 9, 1500, "support")
    assert json.loads(run.first_message or "") == {"role": "user", "content": "g\n\nContext:\nIt is urgent."}
    assert (made.ticket.model, made.ticket.provider) == ("gpt-5-mini", "openai")
    assert Ticket.from_json(run.request_json) == made.ticket
    assert (run.broker_list, run.envelope) == (None, None)


def test_the_requests_own_model_and_the_routes_of_the_settings_win() -> None:
    made = plan({"agent": "support", "model": "other"}, settings={"routes": {"sup*": "fast"}})
    assert (made.ticket.model, made.new_run.queue) == ("other", "fast")


def test_a_time_limit_below_a_millisecond_is_not_none() -> None:
    assert plan({"timeout_seconds": 0.0001}).new_run.timeout_ms == 1


def test_an_unknown_agent_is_named_with_its_near_match_and_the_known_ones() -> None:
    error = fault({"agent": "suport"})
    assert (error.code, error.field) == (ErrorCode.UNKNOWN_AGENT, "agent")
    assert "'support'" in error.message
    assert error.limit == "one of researcher, support, teller"


def test_an_empty_catalogue_asks_for_a_worker_whatever_the_agent() -> None:
    for request in ({}, {"agent": "support"}):
        error = fault(request, snapshot=EMPTY)
        assert error.code == ErrorCode.NO_WORKER
        assert "start a worker" in str(error.mend)


def test_without_an_agent_it_is_the_default_one() -> None:
    settings = {"delegation": {"default_agent_name": "generalist"}}
    assert plan({}, settings=settings).new_run.agent == "generalist"


def test_inputs_that_an_agent_needs_are_listed_at_launch() -> None:
    error = fault({"agent": "teller", "inputs": {"policy": "30 days"}})
    assert error.field == "inputs"
    assert "customer_id" in str(error)
    plan({"agent": "teller", "inputs": {"policy": "30 days", "customer_id": 7}})


def test_an_unknown_provider_or_toolset_is_refused() -> None:
    assert fault({"provider": "opnai"}).code == ErrorCode.UNKNOWN_PROVIDER
    assert "'openai'" in str(fault({"provider": "opnai"}))
    assert fault({"allowed_toolsets": ["handbok"]}).code == ErrorCode.UNKNOWN_TOOLSET


def test_no_toolset_is_a_grant_of_its_own() -> None:
    assert plan({}).new_run.grant_json is None
    grant = Grant.model_validate_json(plan({"allowed_toolsets": []}).new_run.grant_json or "")
    assert grant.toolsets == ()
    blocked = Grant.model_validate_json(plan({"blocked_tools": ["fetch"]}).new_run.grant_json or "")
    assert (blocked.toolsets, blocked.blocked_tools) == (None, ("fetch",))


def test_a_child_asks_for_no_toolset_outside_its_parents_grant() -> None:
    binding = parent(grant=Grant(toolsets=("handbook",)))
    assert plan({"allowed_toolsets": ["handbook"]}, parent=binding).new_run.grant_json
    assert fault({"allowed_toolsets": ["web"]}, parent=binding).code == ErrorCode.TOOLSET_BROADENING


def test_a_model_delegates_to_its_roster_and_an_orchestrators_to_anybody() -> None:
    assert plan({"agent": "researcher"}, parent=parent(), by_model=True)
    assert fault({"agent": "support"}, parent=parent(), by_model=True).code == ErrorCode.UNKNOWN_AGENT
    orchestrator = parent(role=Role.ORCHESTRATOR)
    assert plan({"agent": "support"}, parent=orchestrator, by_model=True)


def test_the_role_degrades_at_the_limit_of_depth() -> None:
    def role(binding: ParentBinding | None, **settings: Any) -> Role:
        return plan({"role": "orchestrator"}, parent=binding, settings=settings).ticket.role

    assert role(None) == Role.ORCHESTRATOR
    assert role(None, max_depth=0) == Role.LEAF
    assert role(parent(depth=2, max_depth=4)) == Role.ORCHESTRATOR
    assert role(parent(depth=3, max_depth=4)) == Role.LEAF


def test_limits_only_tighten() -> None:
    run = plan({"limits": {"max_depth": 99, "max_children": 99}}).new_run
    assert (run.max_depth, run.max_live_children) == (4, 20)
    run = plan({"limits": {"max_depth": 1, "max_children": 0}}).new_run
    assert (run.max_depth, run.max_live_children) == (1, 0)
    run = plan({"limits": {"max_tool_calls": 0, "max_tree": 9}}, parent=parent()).new_run
    assert (run.max_tool_calls, run.max_tree) == (0, 9)
    assert (plan({}).new_run.max_tool_calls, plan({}).new_run.max_tree) == (None, None)
    assert LaunchPlanner(Settings.read(max_tree_children=50), None).max_tree_children == 50


def test_a_working_directory_needs_a_workspace(tmp_path: Path) -> None:
    assert fault({"working_directory": "a"}).field == "working_directory"
    assert plan({"working_directory": "a"}, settings={"workspace_root": tmp_path})


def test_a_child_works_in_its_parents_directory_or_below_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "settings": {"workspace_root": str(tmp_path)},
        "parent": parent(working_directory="jobs/a"),
    }
    assert plan({}, **options).ticket.request.working_directory == "jobs/a"
    assert plan({"working_directory": "jobs/a/b"}, **options).ticket.request.working_directory == "jobs/a/b"
    error = fault({"working_directory": "jobs/ab"}, **options)
    assert (error.field, error.limit) == ("working_directory", "jobs/a")


def test_a_task_that_the_settings_do_not_allow_is_refused_and_the_setting_named() -> None:
    error = fault({"on_done": {"task": "shop.dome"}}, settings={"on_done_tasks": "shop.done"})
    assert (error.field, error.limit) == ("on_done.task", "one of shop.done")
    assert "did you mean 'shop.done'?" in error.message
    assert "on_done_tasks" in (error.mend or "")


@pytest.mark.parametrize("queue", ["retinue", "gpu", "retinue.worker.1"])
def test_a_task_is_not_sent_to_the_workers_of_agents(queue: str) -> None:
    settings = {"on_done_tasks": "shop.done", "routes": {"*": "gpu"}}
    error = fault({"on_done": {"task": "shop.done", "queue": queue}}, settings=settings)
    assert error.field == "on_done.queue"


def test_who_is_to_be_told_of_the_end_is_known_at_launch() -> None:
    allowed = {"on_done_tasks": "shop.done"}
    asked: dict[str, Any] = {"on_done": {"task": "shop.done"}}
    assert plan({}).new_run.tells == ""
    assert plan(asked, settings=allowed).new_run.tells == "d"
    with_hooks = {name: replace(entry, stop_hooks=True) for name, entry in SNAPSHOT.agents.items()}
    snapshot = replace(SNAPSHOT, agents=with_hooks)
    asked["agent"] = "support"
    assert plan(asked, settings=allowed, snapshot=snapshot).new_run.tells == "ds"


def test_webhooks_are_told_of_roots_and_of_runs_that_name_one() -> None:
    snapshot = replace(SNAPSHOT, webhook_tenants=frozenset({"_"}))
    asked: dict[str, Any] = {"webhook": {"url": "https://shop.example/hooks"}}
    assert plan({}, snapshot=snapshot).new_run.tells == "w"
    assert plan({}, snapshot=snapshot, parent=parent()).new_run.tells == ""
    assert plan(asked).new_run.tells == "w"
    assert plan(asked, parent=parent()).new_run.tells == "w"
    other = replace(SNAPSHOT, webhook_tenants=frozenset({"other"}))
    assert plan({}, snapshot=other).new_run.tells == ""


def test_a_webhook_in_clear_text_is_refused_unless_the_settings_allow_it() -> None:
    asked: dict[str, Any] = {"webhook": {"url": "http://shop.example/hooks"}}
    assert fault(asked).field == "webhook.url"
    allowed = {"http": {"webhook_allow_http": True}}
    assert plan(asked, settings=allowed).new_run.tells == "w"


def test_another_session_is_refused() -> None:
    assert fault({"parent_session_id": "t"}).field == "parent_session_id"
    assert plan({"parent_session_id": "s"})


def test_a_roots_thread_is_a_conversation_and_a_childs_is_not() -> None:
    assert plan({}).new_run.thread_ttl_s == 604_800
    child = plan({}, parent=parent())
    assert child.new_run.thread_ttl_s == 3_600
    assert child.ticket.inherited == Inheritance(model="gpt-5-mini")
    place = GroupPlace({"team": "sa-1"}, caller="boss", depth=1, counted_on="sa-1")
    of_a_pair = plan({}, parent=parent(), thread=JoinedThread("t1", group=place))
    assert (of_a_pair.new_run.thread_id, of_a_pair.new_run.thread_ttl_s) == ("t1", 604_800)
    assert (of_a_pair.ticket.group, of_a_pair.ticket.thread) == (place, None)


def test_a_conversation_goes_on_with_its_owner_and_is_part_of_what_is_asked_for() -> None:
    first = plan({"agent": "support"})
    thread = JoinedThread("sa-1", owner="researcher", continues="sa-2")
    following = plan({"agent": "support"}, thread=thread)

    assert (following.new_run.agent, following.ticket.request.agent) == ("researcher", "support")
    assert (following.new_run.thread_id, following.ticket.thread) == ("sa-1", "sa-1")
    assert following.new_run.continues == "sa-2"
    digests = {
        first.new_run.digest,
        following.new_run.digest,
        plan({"agent": "support"}, thread=replace(thread, thread_id="sa-3")).new_run.digest,
    }
    assert len(digests) == 3
    # Whichever of the conversation's runs is named, the next turn is the same.
    assert plan({"agent": "support"}, thread=replace(thread, continues="sa-4")).new_run.digest in digests
    assert fault({"agent": "support"}, thread=replace(thread, owner="gone")).code == ErrorCode.UNKNOWN_AGENT


def test_a_provider_that_the_agent_declares_and_no_worker_has_is_refused() -> None:
    agents = {**SNAPSHOT.agents, "lost": AgentEntry("lost", model="m", provider="opnai")}
    snapshot = replace(SNAPSHOT, agents=agents)
    error = fault({"agent": "lost"}, snapshot=snapshot)
    assert error.code == ErrorCode.UNKNOWN_PROVIDER
    assert "'openai'" in error.message
    assert "agent 'lost' declares" in error.message
    assert plan({"agent": "lost", "provider": "openai"}, snapshot=snapshot)
    # Whether a parent or the worker's settings fill the gap is known there only.
    assert plan({"agent": "researcher"})


def test_a_blocked_tool_that_is_misspelt_is_refused_with_its_near_match() -> None:
    error = fault({"blocked_tools": ["fetch", "serch_handbook"]})
    assert (error.code, error.field) == (ErrorCode.UNKNOWN_TOOLSET, "blocked_tools")
    assert "'serch_handbook' (did you mean 'search_handbook'?)" in error.message
    built_in = ["run_agent", "list_agents", "send_message", "handoff_conversation", "cancel_agent"]
    assert plan({"blocked_tools": [*built_in, "fetch"]})
    named = replace(SNAPSHOT, toolsets={"shop": ("Process refund",)})
    assert plan({"blocked_tools": ["Process_refund"]}, snapshot=named)


def test_what_the_parents_document_gave_it_is_known_to_its_launches() -> None:
    above = parent(inheritance=Inheritance(toolsets=("ask me",)))
    assert plan({"allowed_toolsets": ["ask me"], "blocked_tools": ["ask_me"]}, parent=above)
    error = fault({"allowed_toolsets": ["ask me"]}, parent=parent())
    assert (error.code, error.field) == (ErrorCode.UNKNOWN_TOOLSET, "allowed_toolsets")
