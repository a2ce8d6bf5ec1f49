"""The names of the contract are a promise: changing them is a decision, not a side effect."""

from __future__ import annotations

import subprocess
import sys

import retinue.contract as contract

NAMES = [
    "AGENT_NAME_MAX_CHARS",
    "AGENT_SPEC_MAX_BYTES",
    "AgentSpecError",
    "Audience",
    "CONTEXT_MAX_CHARS",
    "CONTRACT_VERSION",
    "CORRELATION_ID_MAX_CHARS",
    "COUNT_MAX",
    "DeclarationError",
    "DeadLetter",
    "DecisionRefusal",
    "ERROR_MAX_CHARS",
    "EVENT_KEYS",
    "ErrorClassification",
    "ErrorCode",
    "Event",
    "EventType",
    "GOAL_MAX_CHARS",
    "HandleKey",
    "HandleKeyState",
    "INPUTS_MAX_BYTES",
    "JSON_INT_MAX_BITS",
    "JSON_MAX_DEPTH",
    "Keyring",
    "LaunchLimits",
    "METADATA_MAX_BYTES",
    "NAMES_MAX_COUNT",
    "NAME_MAX_CHARS",
    "OnDone",
    "OnDuplicate",
    "OnParentEnd",
    "OUTPUT_SCHEMA_MAX_BYTES",
    "PARTITIONS",
    "PAYLOAD_MAX_BYTES",
    "PHASES_OF",
    "PendingRequest",
    "Phase",
    "Priority",
    "REASON_MAX_CHARS",
    "RequestKind",
    "RetinueError",
    "Role",
    "SECRET_MIN_BYTES",
    "SENSITIVE_FIELDS",
    "SESSION_ID_MAX_CHARS",
    "STEER_MAX_CHARS",
    "SUMMARY_MAX_CHARS",
    "SettingsError",
    "StaleFenceError",
    "SteerReceipt",
    "SteerState",
    "StoreError",
    "StoreMemoryError",
    "StoreReplyError",
    "StoreUnavailableError",
    "SubagentCancelResult",
    "SubagentDecision",
    "SubagentHandle",
    "SubagentLaunchRequest",
    "SubagentLifecycleError",
    "SubagentPurgeResult",
    "SubagentReconnectResult",
    "SubagentResult",
    "SubagentState",
    "SubagentStatus",
    "SubagentTerminalState",
    "TENANT_MAX_CHARS",
    "TERMINAL_STATES",
    "TIMEOUT_MAX_SECONDS",
    "TRANSITIONS",
    "URL_MAX_CHARS",
    "Usage",
    "WORKING_DIRECTORY_MAX_CHARS",
    "WaitUntil",
    "Webhook",
    "bound_text",
    "canonical_json",
    "child_run_id",
    "coerce_handle",
    "document_digest",
    "document_name",
    "document_tools",
    "is_run_id",
    "new_run_id",
    "parse_request_id",
    "parse_task_id",
    "partition_of",
    "partition_of_run",
    "request_digest",
    "server_tools",
    "request_id",
    "seeded_run_id",
    "task_id",
    "validate_agent_name",
    "validate_session",
    "validate_tenant",
    "web_url",
    "Budget",
    "BudgetCap",
    "BudgetRaise",
    "BudgetStatus",
    "OnSpent",
    "TOKENS_MAX",
    "USD_MAX",
    "public_amount",
    "whole_units",
]


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(contract.__all__) == sorted(NAMES)


def test_every_public_name_exists() -> None:
    assert [name for name in contract.__all__ if not hasattr(contract, name)] == []


def test_the_contract_imports_no_other_package_of_retinue_and_no_client_library() -> None:
    program = (
        "import sys, retinue.contract;"
        "print([m for m in sys.modules if m.startswith('retinue.') and not m.startswith('retinue.contract')"
        " or m.split('.')[0] in ('redis', 'celery', 'kombu', 'openai', 'asyncio', 'difflib', 'logging')])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout.strip() == "[]"
