"""A document of the worker's own that holds credentials, as an operator may allow it."""

from __future__ import annotations

import os

from retinue.agents import load_agent_spec

clerk = load_agent_spec(
    {
        "component_type": "Agent",
        "id": "a",
        "name": "clerk",
        "system_prompt": "You are clerk.",
        "llm_config": {
            "component_type": "OpenAiCompatibleConfig",
            "id": "l",
            "name": "own",
            "url": os.environ["MODEL_URL"],
            "model_id": "m",
            "api_key": "canary-key-1",
            "retry_policy": {"initial_retry_delay": 0, "recoverable_statuses": {"404": []}},
        },
        "tools": [
            {
                "component_type": "RemoteTool",
                "id": "t",
                "name": "echo",
                "url": os.environ["REST_URL"],
                "http_method": "POST",
                "sensitive_headers": {"X-Team": "canary-header-2"},
                "headers": {"Authorization": "Bearer canary-header-3"},
                "inputs": [],
                "outputs": [],
            }
        ],
        "agentspec_version": "26.1.2",
    }
)
