"""The catalogue of keys: every key the store writes, with its type, life and owner.

`T` is a tenant's prefix in one partition (`retinue:<tenant>:{pNN}:`), `P` a partition's
(`retinue:{pNN}:`). The braces are a Redis Cluster hash tag: all keys of a session share a slot.

| key | type | holds | life |
|---|---|---|---|
| T run:<id> | hash, values <= 64 B | the record (fields below) | none while live; result_ttl from its end |
| T run:<id>:req | string | the launch, JSON, with its document | as the record; a root's as its thread |
| T run:<id>:res | string | what the run ended with, JSON | as the record |
| T run:<id>:part | string | last text beside tool calls (the partial result) | as the record |
| T run:<id>:j | hash | journal: iteration:index -> tool result, JSON string | until a boundary, or the end |
| T run:<id>:bg | hash | background children: id -> '', ? (it asks) or its reply as JSON | until the end |
| T run:<id>:c | set | ended children that its tools' code launched | until a boundary, or the end |
| T run:<id>:e | hash | open entries: iteration:index[@child] -> kind:detail | until empty, or the end |
| T run:<id>:a | hash | requests: slot -> JSON, !slot -> what became of it | as the record |
| T run:<id>:s | hash | steers: t<n> text, i<n> id, #<id> disposition | as the record |
| T run:<id>:pg | list | tool progress, the newest 200 | as the record |
| T th:<thread> | list | messages in a model API's format | none while its conversation lives, then its own |
| T th:<thread>:ow | string | the agent that it was last handed off to | as the thread |
| T th:<thread>:ps | set | those of the pairs that wrote to each other in this conversation | as the thread |
| T th:<thread>:tn | zset | turns after the first -> ms when all of it is gone (0 = live) | until the last |
| T th:<thread>:by | string | the live run that writes to it, unless named after it | deleted at its end |
| T tree:<root> | hash | n runs ever, live, mx cap; n:, mx: by path | none while live > 0, then result_ttl |
| T tree:<root>:ev | list | events; an event's sequence is its index | as the tree |
| T tree:<root>:m | hash | marks by path | as the tree |
| T tree:<root>:g | hash | grants by path | as the tree |
| T tree:<root>:sp | hash | effective specs by digest | as the tree |
| T tree:<root>:b | hash | accounts of budgets: path and field (_account.lua) -> value | as the tree |
| T tree:<root>:bw | zset, ms since | "path id" of runs that wait for others' reservations | empties itself |
| T tree:<root>:bs | zset, score 0 | "path id" of runs that wait for a raise | empties itself |
| T tree:<root>:live | zset, score 0 | "path id" of live runs; by text, parents first | empties itself |
| T tree:<root>:heard | string, PX | somebody listens to news that are not kept | LISTENING_MS, renewed |
| T tree:<root>:ask | zset, score 0 | "path id" of runs that ask something | empties itself |
| T trees | zset | root of a tree with live runs -> its launch, ms | empties itself |
| T corr:<digest> | string | run id of a (session, correlation id) | none while live, then result_ttl |
| T dead | zset | runs that were given up -> when, ms | a week from the last; the newest 1,000 |
| T dead:<id> | hash | the letter: fields of its record, and req, its launch as JSON | a week |
| T out:<id> | hash | letter of an ended run: its record; to:<who> is to be told | until told, a week |
| T out:<id>:req | string | its launch, JSON | as the letter |
| T sess:<session> | zset | root runs by creation, ms | renewed by each launch, which drops expired ones |
| P tenants | zset | tenant -> ms of its last launch, to find a revoked run's | each 30 days |
| P due | zset | tenant/run -> ms of the next thing to do (0 = now) | empties itself |
| P out:<whom> | zset | tenant/run of a letter -> ms from when it may be taken | empties itself; a week |
| P q:<queue> | zset | tenant/run -> queued since, ms | empties itself |
| P queues | set | where runs wait, or have waited | empty ones that nobody serves, by the reaper |
| P own:<process> | set | tenant/run claimed by a process | empties itself; a dead owner's by the reaper |
| retinue:lease:<process> | string, PX | a process's sign of life | lease_seconds, renewed by its sidecar |
| retinue:drain:<process> | string | a process was asked to drain | an hour |
| retinue:canary:<nonce> | string, PX | who took a canary, or is full; of a process: what it is asked | 15 s |
| retinue:workers | hash | process -> what it advertises, JSON | removed by its owner or the reaper |
| retinue:gone | zset | process -> when it was removed there, epoch s | an hour; trimmed by the next |
| retinue:catalogue | hash | name -> what was last advertised, JSON | ignored after 30 days |
| retinue:keyring | hash | key id -> handle key, JSON | for good |
| retinue:{http}:apikeys | hash | id -> API key without its secret, JSON; !id -> revoked, ms | for good |
| retinue:{http}:rate:<whom> | string, PX | us from when a whole minute's requests are free | until then |
| retinue:once:{<digest>} | hash | a request with an Idempotency-Key (begin_request.lua) | 24 h |
| retinue:{webhooks}:tenants | set | tenants that have endpoints | until they have none |
| retinue:{webhooks}:of:<tenant> | zset | a tenant's endpoints by creation, ms | until they are deleted |
| retinue:{webhooks}:at:<tenant>:<endpoint> | hash | an endpoint (fields below) | until it is deleted |
| retinue:{webhooks}:msg:<tenant>:<delivery> | hash | a delivery (fields below) | a week from its change |
| retinue:{webhooks}:log:<tenant>:<endpoint> | zset | its deliveries -> queued, ms | a week from the last |
| retinue:{webhooks}:over:<tenant>:<endpoint> | zset | those that are over -> since, ms | as its log |
| retinue:{webhooks}:lane:<tenant>:<lane> | zset | pending ones to one place -> due, ms | empties itself |
| retinue:{webhooks}:due | zset | tenant/lane -> ms from when it may be taken | empties itself |
| retinue:{webhooks}:held | hash | tenant/lane -> token of who works on it | as its place in due |
| retinue:reaper | string, PX | the elected reaper's process id | lease_seconds |
| retinue:provider:{<name>} | hash | rl/tl requests, tokens left, at; nb closed until, nd for | until full |
| retinue:provider:{<name>}:held | zset | process:place -> held until, ms | HELD_MS from the last |
| retinue:provider:{<name>}:queue | zset | process:place -> asked first, ms | three asks from the last |
| retinue:provider:{<name>}:asked | zset | process:place -> asked last, ms | as the queue |

Record fields: st state, ph phase, ep epoch, tok claim token, own owning process, op/rp last operation and
its reply, nt id of the last note, dr the claim token if its process drains, root, par parent, pc the
parent's call slot (iteration:index, or bg: in the background), pt the tool called there, path, dp depth, ab
depth from which ended ancestors count (its own for a run that its parent's end abandons), q queue, pr
priority, ag agent, sess session, co correlation digest, rd request digest, dl deadline ms, it iteration, im
last recorded iteration, mi max iterations, fr how that response ended (stop, length, refused), mxd max
depth, mxc max live children, lc live children, nc children ever, wk last wake-up number, rs/ra resends and
the ms before which none is due, ls losses, di last iteration and how often its process disowned it there,
ns/nd/hd steers accepted/delivered/handed out, cs steerable (l loop, o object), tin/tout/tca/tre tokens
(input, output, cached, reasoning), usd their cost in micro-USD, unk 1 = that is not known, rt model
retries, tc tool calls, t:<tool> and d:<tool> calls and ms of each tool, wms ms that it was suspended and ws
since when it is, al how often a process died with it, xin/xout/xca/xre/xusd/xrt/xtc/xwms, xt:<tool> and
xd:<tool> the same of all below it, xmc their model calls, xunk how many of them have an unknown cost, xat
their attempts; led by y instead of x what they used after its end, dg spec digest, doc digest of the Agent
Spec document that the agent stands in (absent: workers have the agent), md/pv its model and provider, na
open requests (absent: never asked), nq those among them that its parent's model is asked (absent: none), th
thread, tt thread TTL s, gr messages sent in the group that it owns, gc the run that owns the group for
which it was sent a message, ho handoffs, cn the run that it continues, ry the run whose dead letter it
replays, se epoch of the last suspension, ttl result TTL s, cr/sa/up/fi created, started, updated, finished
ms, cls error class, hw how many runs at or below it ask a human (absent: none; up to the next ended one
above) and hs since when, ms: the deadline stands still, mtc most tool calls (absent: no limit), bk depths
at and above it that have a budget (absent: none; accounts stand in the tree's), rin/rout/rus its open
reservation (input tokens, output tokens, micro-USD), nin/nout/nus what it waits to reserve, bta
iteration:how many of its calls budgets allow, mxt most runs ever below it, wd digest of its work (absent:
none), tl who is to be told of its end: d the application's task, s hooks, w webhooks (absent: nobody).

Endpoint fields: ul URL, ds description, cr created ms, st on or off, why it is off, sec what signs, old what
signed before and signs too until till, ms; of the endpoint per-run, which stands for runs' own webhooks, only
what signs.

Delivery fields: ep endpoint or per-run, ln lane, ul URL of a run's own webhook, run, sess, ag, par, rs, cls,
fi the run's id, session, agent, parent, state, error class and end ms, st p pending, d delivered, f failed, n
attempts, qd queued ms, nx next attempt ms, la last attempt ms, code status that was answered, dur how long
that took, ms, err what went wrong, tok token of who makes it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from retinue.contract import partition_of, partition_of_run

WORKERS = "retinue:workers"
GONE = "retinue:gone"
CATALOGUE = "retinue:catalogue"
KEYRING = "retinue:keyring"
REAPER = "retinue:reaper"
WEBHOOKS = "retinue:{webhooks}:"
"""The prefix of all that concerns webhooks: one slot, for one index tells which tenant's are due."""
API_KEYS = "retinue:{http}:apikeys"
"""Shares its slot with what the limits of requests are counted in: both are looked at in one script."""
BARRIER_CHANNEL = "retinue:barrier"
"""A channel without listeners: what is published there is only to go through replication."""


def tenant_prefix(tenant: str, partition: int) -> str:
    """The prefix of a tenant's keys in one partition."""
    return f"retinue:{tenant}:{{p{partition:02d}}}:"


def partition_prefix(partition: int) -> str:
    """The prefix of the keys that a partition's tenants share."""
    return f"retinue:{{p{partition:02d}}}:"


@lru_cache(maxsize=1_024)
def prefixes(tenant: str, run_id: str) -> tuple[str, str]:
    """Both prefixes of a run, told by its id.

    Raises:
        ValueError: the id is not one of ours.
    """
    partition = partition_of_run(run_id)
    return tenant_prefix(tenant, partition), partition_prefix(partition)


def record(tenant: str, run_id: str) -> str:
    return prefixes(tenant, run_id)[0] + "run:" + run_id


def session(tenant: str, session_id: str) -> str:
    return tenant_prefix(tenant, partition_of(tenant, session_id)) + "sess:" + session_id


def tree_events(tenant: str, root_id: str) -> str:
    return tenant_prefix(tenant, partition_of_run(root_id)) + "tree:" + root_id + ":ev"


def listened(tenant: str, root_id: str) -> str:
    """Where it stands that somebody listens to a tree's news."""
    return tenant_prefix(tenant, partition_of_run(root_id)) + "tree:" + root_id + ":heard"


def news_channel(tenant: str, root_id: str) -> str:
    """Where news of a tree that are not kept are published while somebody listens."""
    return tenant_prefix(tenant, partition_of_run(root_id)) + "tree:" + root_id + ":news"


def live_trees(tenant: str, partition: int) -> str:
    """The roots of a tenant's trees that have live runs, in one partition."""
    return tenant_prefix(tenant, partition) + "trees"


def live_runs(tenant: str, root_id: str) -> str:
    """A tree's live runs."""
    return tenant_prefix(tenant, partition_of_run(root_id)) + "tree:" + root_id + ":live"


def thread(tenant: str, run_id: str, thread_id: str) -> str:
    """A thread's key; `run_id` is any run of the same session (it tells the partition)."""
    return tenant_prefix(tenant, partition_of_run(run_id)) + "th:" + thread_id


def dead_letters(tenant: str, partition: int) -> str:
    """Which runs of a tenant were given up, in one partition."""
    return tenant_prefix(tenant, partition) + "dead"


def letter(tenant: str, run_id: str) -> str:
    """What is kept of an ended run until everyone is told."""
    return prefixes(tenant, run_id)[0] + "out:" + run_id


def outbox(partition: int, whom: str) -> str:
    """The ended runs of which someone is still to be told."""
    return partition_prefix(partition) + "out:" + whom


def member(tenant: str, run_id: str) -> str:
    """How a run stands in the indexes that tenants share."""
    return f"{tenant}/{run_id}"


def split_member(text: str) -> tuple[str, str]:
    """The tenant and run id of an index member."""
    tenant, _, run_id = text.partition("/")
    return tenant, run_id


def correlation_digest(session_id: str, correlation_id: str) -> str:
    """40 hex characters that stand for a correlation id within a session."""
    return hashlib.sha1(f"{session_id}\0{correlation_id}".encode(), usedforsecurity=False).hexdigest()


def wake_channel(partition: int) -> str:
    """Where a run's end, and a human being asked, are published."""
    return partition_prefix(partition) + "wake"


def process_channel(process: str) -> str:
    """Where a worker process hears of cancels and steers for runs that it owns."""
    return f"retinue:process:{process}"


def lease(process: str) -> str:
    return f"retinue:lease:{process}"


def drain(process: str) -> str:
    """Where it stands that a worker process was asked to drain."""
    return f"retinue:drain:{process}"


def canary(name: str) -> str:
    """Where a canary's answer stands, by its nonce; by a process's id, which canaries it is asked of."""
    return f"retinue:canary:{name}"


def due(partition: int) -> str:
    return partition_prefix(partition) + "due"


def tenants(partition: int) -> str:
    return partition_prefix(partition) + "tenants"


def queued(partition: int, queue: str) -> str:
    return partition_prefix(partition) + "q:" + queue


def queues(partition: int) -> str:
    return partition_prefix(partition) + "queues"


def owned(partition: int, process: str) -> str:
    return partition_prefix(partition) + "own:" + process


def request_rate(whom: str) -> str:
    """What a caller of the HTTP API has asked lately."""
    return "retinue:{http}:rate:" + whom


def once(digest: str) -> str:
    """What is known of a request that is to be done once."""
    return f"retinue:once:{{{digest}}}"


def webhook_endpoints(tenant: str) -> str:
    return f"{WEBHOOKS}of:{tenant}"


def webhook_endpoint(tenant: str, webhook_id: str) -> str:
    return f"{WEBHOOKS}at:{tenant}:{webhook_id}"


def webhook_log(tenant: str, webhook_id: str) -> str:
    """The deliveries of an endpoint, pending ones and others."""
    return f"{WEBHOOKS}log:{tenant}:{webhook_id}"


def webhook_message(tenant: str, delivery_id: str) -> str:
    return f"{WEBHOOKS}msg:{tenant}:{delivery_id}"


def provider_places(provider: str) -> tuple[str, str, str, str]:
    """What is used of a provider's limits: buckets, held places, queue, and when each there asked last."""
    key = f"retinue:provider:{{{provider}}}"
    return key, key + ":held", key + ":queue", key + ":asked"
