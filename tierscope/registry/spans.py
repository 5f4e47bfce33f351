"""The span table: every span we emit and its attributes, in one place."""

from __future__ import annotations

from tierscope.registry.types import Span, SpanAttribute

REQUEST_ID = SpanAttribute("gen_ai.request.id", str, "The engine's request id without its random suffix.")
MODEL = SpanAttribute("gen_ai.request.model", str, "The served model's name.")
NAMESPACE = SpanAttribute("tierscope.namespace", str, "Namespace of the endpoint.")
ENDPOINT = SpanAttribute("tierscope.endpoint", str, "Name of the endpoint.")
REPLICA = SpanAttribute("tierscope.replica", str, "The replica (pod) that served the request.")
RANK = SpanAttribute("tierscope.rank", int, "Data-parallel rank of the engine.")
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
COMPUTED_TOKENS = SpanAttribute("tierscope.tokens.computed", int, "Tokens whose KV values were computed.")
QUEUE_SECONDS = SpanAttribute("tierscope.queue_seconds", float, "Wait before admission; absent if not known.")
LOAD_WAIT_SECONDS = SpanAttribute(
    "tierscope.load_seconds", float, "Wait for loads; absent if there were none."
)
TTFT_SECONDS = SpanAttribute("tierscope.ttft_seconds", float, "Arrival to first token; absent if none came.")

KV_LOOKUP = Span(
    name="kv.lookup",
    help="One admission: from arrival to first token (or to its end), with its tokens by tier.",
    attributes=(
        REQUEST_ID,
        MODEL,
        NAMESPACE,
        ENDPOINT,
        REPLICA,
        RANK,
        STATUS,
        ATTEMPT,
        PROMPT_TOKENS,
        L0_TOKENS,
        L1_TOKENS,
        L2_TOKENS,
        EXTERNAL_TOKENS,
        COMPUTED_TOKENS,
        QUEUE_SECONDS,
        LOAD_WAIT_SECONDS,
        TTFT_SECONDS,
    ),
)

SPANS: tuple[Span, ...] = (KV_LOOKUP,)
"""Every span."""
