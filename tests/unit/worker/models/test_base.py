"""What may be shown of the words of the model side."""

import pickle

from pydantic import SecretStr

from retinue.contract import ErrorClassification
from retinue.worker.models import (
    ModelError,
    ModelRequest,
    ModelResponse,
    Provider,
    RetryAbandonedError,
    ToolCall,
)


def test_no_repr_shows_a_key_a_prompt_or_an_output():
    provider = Provider(
        name="p",
        base_url="http://user:SECRET@host/v1",
        api_key=SecretStr("SECRET"),
        headers={"X-Key": SecretStr("SECRET")},
        overrides={"user": "SECRET"},
    )
    request = ModelRequest(
        provider=provider, model="m", system="SECRET", entries=["SECRET"], params={"stop": "SECRET"}
    )
    call = ToolCall("id", "search", "SECRET")
    response = ModelResponse(text="SECRET", tool_calls=(call,), entry="SECRET", refusal="SECRET")
    error = ModelError("failed", detail="SECRET")
    assert "SECRET" not in f"{provider!r} {request!r} {response!r} {error!r} {error}"


def test_an_error_keeps_its_fields_in_another_process():
    for cls in (ModelError, RetryAbandonedError):
        error = cls(
            "failed",
            classification=ErrorClassification.MODEL_RATE_LIMITED,
            retryable=True,
            retry_after_s=1.5,
            status=429,
            code="c",
            detail="d",
        )
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is cls
        assert copy.args == error.args
        assert vars(copy) == vars(error)
