"""What OpenAPI says of the fields of bodies beyond their types: their bounds, which are the contract's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retinue.contract import limits

Fact = Mapping[str, Any]

_NAME: Final = {"maxLength": limits.NAME_MAX_CHARS}
_NO_NUL: Final = {"pattern": r"^[^\u0000]*$"}
_SAYS_SOMETHING: Final = {"minLength": 1, "pattern": r"\S"}
_COUNT: Final = {"minimum": 0, "maximum": limits.COUNT_MAX}
_TOKENS: Final = {"minimum": 1, "maximum": limits.TOKENS_MAX}
_SECONDS: Final = {"exclusiveMinimum": 0, "maximum": limits.TIMEOUT_MAX_SECONDS}


def _said(text: str, **facts: Any) -> Fact:
    return {"description": text, **facts}


def _names(text: str) -> Fact:
    items = {"type": "string", **_SAYS_SOMETHING, **_NAME}
    return _said(text, maxItems=limits.NAMES_MAX_COUNT, items=items)


_SESSION: Final = _said(
    "The conversation, job or application that owns the run; no control characters and braces.",
    minLength=1,
    maxLength=limits.SESSION_ID_MAX_CHARS,
)
_CORRELATION: Final = _said(
    "The caller's own id of the work, unique within the session while the run is kept.",
    maxLength=limits.CORRELATION_ID_MAX_CHARS,
)
_TIMEOUT: Final = _said("From launch on, queue time included. null = no deadline.", **_SECONDS)
_METADATA: Final = _said(
    f"Comes back with the result; at most {limits.METADATA_MAX_BYTES:,} bytes as sorted ASCII JSON."
)
_INPUTS: Final = _said(
    f"For the agent's placeholders; at most {limits.INPUTS_MAX_BYTES:,} bytes as sorted ASCII JSON."
)
_RUNS: Final = _said(
    "Run ids, or handles as they were given. An unknown one gets the UNKNOWN answer.",
    minItems=1,
    maxItems=1_000,
)
_REQUEST_ID: Final = _said("As GET .../pending has it.", **_SAYS_SOMETHING, maxLength=100)
_REASON: Final = _said(f"Its first {limits.REASON_MAX_CHARS} characters are kept.", **_NO_NUL)

BUDGET_FACTS: Final[Mapping[str, Fact]] = {
    "input_tokens": _said("Tokens.", **_TOKENS),
    "output_tokens": _said("Tokens.", **_TOKENS),
    "tokens": _said("Input and output together.", **_TOKENS),
    "usd": _said(
        'USD in whole millionths: a number, or a text such as "2.50".',
        exclusiveMinimum=0,
        maximum=limits.USD_MAX,
        multipleOf=0.000001,
    ),
    "tool_calls": _said("One too many is refused, and not run.", **_COUNT),
    "wall_seconds": _said("From the run's launch on.", **_SECONDS),
}

REQUEST_FACTS: Final[Mapping[str, Fact]] = {
    "goal": _said("What to do.", **_SAYS_SOMETHING, maxLength=limits.GOAL_MAX_CHARS),
    "context": _said("What the agent should know.", **_NO_NUL, maxLength=limits.CONTEXT_MAX_CHARS),
    "role": _said("Whom the run may delegate to."),
    "timeout_seconds": _TIMEOUT,
    "working_directory": _said(
        "Relative, under the workers' workspace root; no part `..`.",
        **_SAYS_SOMETHING,
        maxLength=limits.WORKING_DIRECTORY_MAX_CHARS,
    ),
    "blocked_tools": _names("Names of tools that the run must not have."),
    "metadata": _METADATA,
    "allowed_toolsets": _names("null = all that the agent declares; [] = none."),
    "parent_session_id": _said("If given, it must equal session_id.", maxLength=limits.SESSION_ID_MAX_CHARS),
    "correlation_id": _CORRELATION,
    "agent": _said(
        "A name, as GET /v1/agents lists them. null = the outermost of agent_spec, else the default agent.",
        minLength=1,
        maxLength=limits.AGENT_NAME_MAX_CHARS,
    ),
    "agent_spec": _said(
        "Agents by value: an Agent Spec document as an object, without credentials; "
        f"at most {limits.AGENT_SPEC_MAX_BYTES:,} bytes as sorted ASCII JSON."
    ),
    "model": _said("null = the agent's.", **_NAME),
    "provider": _said("The name of a provider. null = the agent's.", **_NAME),
    "inputs": _INPUTS,
    "output_schema": _said(
        'The JSON schema, with "type": "object", of what the run ends with; '
        f"at most {limits.OUTPUT_SCHEMA_MAX_BYTES:,} bytes as sorted ASCII JSON. null = the agent's."
    ),
    "max_iterations": _said("Model requests. null = the agent's.", minimum=1, maximum=limits.COUNT_MAX),
    "limits": _said("Caps on the run and its subtree."),
    "budget": _said("What the run and all below it may use together."),
    "priority": _said("The class in which the run waits for its first slot."),
    "on_duplicate": _said("What the launch does when its correlation_id is taken."),
    "on_parent_end": _said("What happens to a run whose parent ends before it."),
    "on_done": _said("The application's own Celery task that is sent the handle at the end."),
    "webhook": _said("Where it is posted that the run has ended, signed for the tenant."),
}

FACTS: Final[Mapping[str, Mapping[str, Fact]]] = {
    "SubagentLaunchRequest": REQUEST_FACTS,
    "LaunchBody": {**REQUEST_FACTS, "session_id": _SESSION},
    "LaunchManyBody": {
        "session_id": _SESSION,
        "requests": _said("All are launched, or none.", minItems=1, maxItems=100),
    },
    "ContinueBody": {
        "text": _said("What the user says now.", **_SAYS_SOMETHING, maxLength=limits.GOAL_MAX_CHARS),
        "correlation_id": _CORRELATION,
        "timeout_seconds": _TIMEOUT,
        "metadata": _METADATA,
        "inputs": _INPUTS,
    },
    "LaunchLimits": {
        "max_tool_calls": _said("Of the run itself.", **_COUNT),
        "max_depth": _said("Of the tree; root = 0, inclusive.", **_COUNT),
        "max_children": _said("Live at one time, of the run itself.", **_COUNT),
        "max_tree": _said("Runs below the run, at any depth, over its life.", **_COUNT),
    },
    "Budget": {**BUDGET_FACTS, "on_spent": _said("What becomes of a run once it is spent.")},
    "BudgetBody": BUDGET_FACTS,
    "OnDone": {
        "task": _said("Its registered name; allow-listed in the settings.", **_SAYS_SOMETHING, **_NAME),
        "queue": _said("null = the application's default queue.", **_NAME),
    },
    "Webhook": {
        "url": _said(
            "https://, and no address of a private network, unless the settings allow it.",
            pattern="^https?://",
            maxLength=limits.URL_MAX_CHARS,
        )
    },
    "SteerBody": {
        "text": _said("What the model is to see.", **_SAYS_SOMETHING, maxLength=limits.STEER_MAX_CHARS),
        "steer_id": _said("null = a fresh one.", pattern=r"^[A-Za-z0-9_.:-]{1,64}$"),
    },
    "ReasonBody": {"reason": _REASON},
    "ApproveBody": {"request_id": _REQUEST_ID},
    "DenyBody": {"request_id": _REQUEST_ID, "reason": _REASON},
    "AnswerBody": {"request_id": _REQUEST_ID, "value": _said("A text, or any JSON value.")},
    "WaitBody": {
        "runs": _RUNS,
        "mode": _said("Until one of them has ended, or all."),
        "timeout_seconds": _said("0 = look once.", minimum=0, maximum=60),
    },
    "ResultsBody": {"runs": _RUNS},
}
"""By the name of the body, then of its field."""
