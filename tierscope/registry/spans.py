"""The span table: every span we emit and its attributes, in one place."""

from __future__ import annotations

from tierscope.registry.types import Span, SpanAttribute

REQUEST_ID = SpanAttribute(
    "gen_ai.request.id",
    str,
    "The request's id as the engine's API and spans have it; the n>1 completions of one request share it.",
)
MODEL = SpanAttribute("gen_ai.request.model", str, "The served model's name.")
NAMESPACE = SpanAttribute("tierscope.namespace", str, "Namespace of the endpoint.")
ENDPOINT = SpanAttribute("tierscope.endpoint", str, "Name of the endpoint.")
REPLICA = SpanAttribute("tierscope.replica", str, "The replica (pod) that served the request.")
RANK = SpanAttribute("tierscope.rank", int, "Data-parallel rank of the engine.")
SOURCE = SpanAttribute(
    "tierscope.source", str, "The source that told it, as in the label `source` of the metrics."
)
STATUS = SpanAttribute("tierscope.status", str, "What became of the admission.")
ATTEMPT = SpanAttribute("tierscope.attempt", int, "0 for the first admission, then one a preemption.")
PROMPT_TOKENS = SpanAttribute(
    "tierscope.tokens.prompt", int, "Tokens of the prompt; the sum of the five below."
)
L0_TOKENS = SpanAttribute("tierscope.tokens.l0", int, "Tokens served by the GPU prefix cache.")
L1_TOKENS = SpanAttribute("tierscope.tokens.l1", int, "Tokens loaded from host memory.")
L2_TOKENS = SpanAttribute("tierscope.tokens.l2", int, "Tokens loaded from the shared pool.")
EXTERNAL_TOKENS = SpanAttribute(
    "tierscope.tokens.external", int, "Tokens loaded from a tier nothing told us."
)
EXTERNAL_REASON = SpanAttribute(
    "tierscope.external_reason",
    str,
    "Why nothing told the tier of the external tokens; absent if there are none.",
)
COMPUTED_TOKENS = SpanAttribute("tierscope.tokens.computed", int, "Tokens whose KV values were computed.")
QUEUE_SECONDS = SpanAttribute("tierscope.queue_seconds", float, "Wait before admission; absent if not known.")
LOAD_WAIT_SECONDS = SpanAttribute(
    "tierscope.load_seconds", float, "Wait for loads; absent if there were none."
)
TTFT_SECONDS = SpanAttribute("tierscope.ttft_seconds", float, "Arrival to first token; absent if none came.")
LOAD_TIER = SpanAttribute(
    "tierscope.load.tier", str, "Outermost tier that was loaded from: l1, l2, or external where nothing told."
)
LOAD_TOKENS = SpanAttribute("tierscope.load.tokens", int, "Tokens that were waited for, of all tiers.")

LOOKUP_HIT_TOKENS = SpanAttribute(
    "tierscope.lookup.hit_tokens",
    int,
    "Tokens from the prompt's start that L1 and L2 were found to have, also those that L0 has.",
)
LOOKUP_L1_HIT_TOKENS = SpanAttribute(
    "tierscope.lookup.l1_hit_tokens", int, "Those of them that L1 alone was found to have."
)
ADAPTER = SpanAttribute("tierscope.read.adapter", str, "The L2 adapter that read; absent if not told.")
READ_BLOCKS = SpanAttribute(
    "tierscope.read.blocks", int, "Objects read: a chunk has one for each KV rank; absent if not told."
)
READ_BYTES = SpanAttribute("tierscope.read.bytes", int, "Bytes read; absent if not told.")

STORED_BLOCKS = SpanAttribute(
    "tierscope.store.blocks", int, "Objects stored: a chunk has one for each KV rank; absent if not told."
)
STORED_BYTES = SpanAttribute("tierscope.store.bytes", int, "Bytes stored; absent if not told.")

KV_LOOKUP = Span(
    name="kv.lookup",
    help="One admission, with its tokens by tier: from arrival to first token or, where none came, to the "
    "end of its admission or load. After a preemption it begins when the tiers are asked again. Its "
    "status is an error where the request ended before its first token.",
    attributes=(
        REQUEST_ID,
        MODEL,
        NAMESPACE,
        ENDPOINT,
        REPLICA,
        RANK,
        SOURCE,
        STATUS,
        ATTEMPT,
        PROMPT_TOKENS,
        L0_TOKENS,
        L1_TOKENS,
        L2_TOKENS,
        EXTERNAL_TOKENS,
        EXTERNAL_REASON,
        COMPUTED_TOKENS,
        QUEUE_SECONDS,
        LOAD_WAIT_SECONDS,
        TTFT_SECONDS,
    ),
)

KV_LOAD = Span(
    name="kv.load",
    help="The wait of an admission for its load, a child of `kv.lookup`: from admission to the load's end. "
    "There is none where the engine does not tell the wait, as where it loads while it computes.",
    attributes=(LOAD_TIER, LOAD_TOKENS, LOAD_WAIT_SECONDS, SOURCE),
)

KV_L1 = Span(
    name="kv.l1",
    help="The lookup of an admission in its cache server, a child of `kv.lookup`: from question to answer, "
    "as the server tells both. What it loaded from L2 for the answer lies in it.",
    attributes=(LOOKUP_HIT_TOKENS, LOOKUP_L1_HIT_TOKENS, SOURCE),
)
KV_L1_READ = Span(
    name="kv.l1.read",
    help="One copy from L1 to the engine, a child of `kv.lookup`, as the cache server tells it. There is "
    "none where the engine copies by itself.",
    attributes=(READ_BLOCKS, READ_BYTES, SOURCE),
)
KV_L1_STORE = Span(
    name="kv.l1.store",
    help="One copy from the engine to L1, a child of `kv.lookup`, as the cache server tells it. What was "
    "computed is stored when it is there, so it may begin after the first token, with which its parent ends. "
    "There is none where the engine copies by itself, and none for L2: its writes are of several requests.",
    attributes=(STORED_BLOCKS, STORED_BYTES, SOURCE),
)
KV_L2_READ = Span(
    name="kv.l2.read",
    help="One load from L2 to L1 for an admission, a child of `kv.lookup`: from the task's submission to its "
    "end, as the cache server tells both.",
    attributes=(ADAPTER, READ_BLOCKS, READ_BYTES, SOURCE),
)

SPANS: tuple[Span, ...] = (KV_LOOKUP, KV_LOAD, KV_L1, KV_L1_READ, KV_L1_STORE, KV_L2_READ)
"""Every span."""
