"""The front door of the models package."""

from retinue.worker import models


def test_the_public_names_are_these():
    assert models.__all__ == [
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
    assert all(hasattr(models, name) for name in models.__all__)
