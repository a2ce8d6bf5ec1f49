"""The answer of GET /v1/whoami."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from retinue.store.operations.api_keys import Scope


class WhoAmI(BaseModel):
    """What credentials amount to."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"tenant": "acme", "scopes": ["run:write"], "key_id": "k3zq7m2fw6xa", "name": "shop"}
            ]
        }
    )

    tenant: Annotated[str, Field(description="Whose runs they lead to.")]
    scopes: Annotated[list[Scope], Field(description="What they allow; admin includes all of them.")]
    key_id: Annotated[str, Field(description="The API key's id, or the token's subject.")]
    name: Annotated[str, Field(description="What the key is for, in its maker's words.")]
