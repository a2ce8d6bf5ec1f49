"""Models: what a run asks, over chat completions or responses, and when it asks again."""

from retinue.worker.models.base import (
    Api,
    Model,
    ModelError,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    OnDelta,
    Provider,
    ToolCall,
    ToolSchema,
)
from retinue.worker.models.client import OpenAiModel
from retinue.worker.models.entries import (
    assistant_entry,
    last_text,
    pending_calls,
    tool_result_head,
    user_entry,
)
from retinue.worker.models.retry import RetryAbandonedError, RetryPolicy

__all__ = [
    "Api",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelUsage",
    "OnDelta",
    "OpenAiModel",
    "Provider",
    "RetryAbandonedError",
    "RetryPolicy",
    "ToolCall",
    "ToolSchema",
    "assistant_entry",
    "last_text",
    "pending_calls",
    "tool_result_head",
    "user_entry",
]
