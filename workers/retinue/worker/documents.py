"""Agent Spec documents that came with launches: each is loaded once, by whichever run needs it first."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict

from pydantic import JsonValue

from retinue.agents.agentspec.by_value import load_by_value
from retinue.agents.registry.registry import Registry
from retinue.client.launching.ticket import Ticket
from retinue.contract import AgentSpecError, document_digest
from retinue.store.call import RunKey
from retinue.store.operations import reading
from retinue.worker.process.patience import PatientStore

_KEPT = 128


class LaunchedDocuments:
    """The registries of documents, by digest.

    Args:
        store: Where the launches are kept that brought them along.
        registry: What this process can run without them; their agents use its tools.
    """

    def __init__(self, store: PatientStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._loads: OrderedDict[str, asyncio.Task[Registry]] = OrderedDict()

    async def registry(self, run: RunKey, ticket: Ticket, digest: str) -> Registry:
        """The registry with the document of a run.

        Args:
            run, ticket: The run.
            digest: Its document's.

        Raises:
            AgentSpecError: The document is gone or wrong, or names a tool that this worker lacks.
            DeclarationError: Two of its tools have one name for the model.
        """
        load = self._loads.get(digest)
        if load is None or (load.done() and (load.cancelled() or load.exception() is not None)):
            load = self._loads[digest] = asyncio.create_task(self._load(run, ticket, digest))
            if len(self._loads) > _KEPT:
                self._loads.popitem(last=False)
        self._loads.move_to_end(digest)
        # Others wait for the same load: the end of this run must not end it.
        return await asyncio.shield(load)

    async def _load(self, run: RunKey, ticket: Ticket, digest: str) -> Registry:
        document = ticket.request.agent_spec
        if document is None and ticket.document is not None:
            document = await self._fetch(RunKey(run.tenant, ticket.document))
        if document is None or document_digest(document) != digest:
            raise AgentSpecError(
                "the Agent Spec document of the launch is not there any more",
                field="agent_spec",
                mend="launch anew; a document is kept as long as the run that it was launched with",
            )
        # Its first load imports pyagentspec, which takes the better part of a second.
        return await asyncio.to_thread(lambda: self._registry.with_document(load_by_value(document)))

    async def _fetch(self, holder: RunKey) -> dict[str, JsonValue] | None:
        kept = await self._store.run(reading.read_request(holder))
        return None if kept is None else json.loads(kept)["request"].get("agent_spec")
