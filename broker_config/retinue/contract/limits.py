"""The numbers of the public contract. `_MAX_` is inclusive; characters are Unicode code points."""

from __future__ import annotations

from typing import Final

GOAL_MAX_CHARS: Final = 16_000
CONTEXT_MAX_CHARS: Final = 32_000
METADATA_MAX_BYTES: Final = 8_192  # of sorted JSON with ASCII escapes, as json.dumps writes by default
INPUTS_MAX_BYTES: Final = 65_536  # counted like metadata
OUTPUT_SCHEMA_MAX_BYTES: Final = 32_768  # counted like metadata; it goes along with every model request
AGENT_SPEC_MAX_BYTES: Final = 262_144  # of an Agent Spec document in a request, counted like metadata
JSON_MAX_DEPTH: Final = 64  # of containers within containers in metadata, inputs and output schemas
JSON_INT_MAX_BITS: Final = 1_024  # of one integer; far more would be refused by json itself

SUMMARY_MAX_CHARS: Final = 32_000
ERROR_MAX_CHARS: Final = 32_000
PAYLOAD_MAX_BYTES: Final = 65_536  # of a structured payload, counted like metadata
STEER_MAX_CHARS: Final = 32_000
REASON_MAX_CHARS: Final = 500  # of a cancel's reason; the rest is cut

AGENT_NAME_MAX_CHARS: Final = 64
NAME_MAX_CHARS: Final = 200  # of a toolset, tool, task, queue, provider or model name
NAMES_MAX_COUNT: Final = 1_000  # in allowed_toolsets or blocked_tools
CORRELATION_ID_MAX_CHARS: Final = 200
SESSION_ID_MAX_CHARS: Final = 128
TENANT_MAX_CHARS: Final = 64
WORKING_DIRECTORY_MAX_CHARS: Final = 1_024
URL_MAX_CHARS: Final = 2_048  # of a webhook

TIMEOUT_MAX_SECONDS: Final = 315_360_000.0  # ten years: deadlines in ms stay exact in a Lua number
COUNT_MAX: Final = 1_000_000  # of any count that a request may set
TOKENS_MAX: Final = 1_000_000_000_000  # of a budget
USD_MAX: Final = 1_000_000  # of a budget: micro-USD stay exact in a Lua number
