"""One admission of one request: its tokens by origin, its block chain, its times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tierscope.domain.errors import BadInput
from tierscope.domain.identity import EngineId
from tierscope.domain.tiers import Origin, Tier


@dataclass(frozen=True, slots=True)
class TokenSplit:
    """Prompt tokens by origin. Conserved by construction: prompt = l0 + l1 + l2 + external + computed.

    All values are tokens and none is negative; a split that does not add up raises `BadInput`.
    """

    prompt: int
    l0: int = 0
    l1: int = 0
    l2: int = 0
    external: int = 0
    computed: int = 0

    def __post_init__(self) -> None:
        parts = (self.l0, self.l1, self.l2, self.external, self.computed)
        if sum(parts) == self.prompt and min(parts) >= 0:
            return
        raise BadInput(
            f"a token split does not add up: prompt {self.prompt} is not l0 {self.l0} + l1 {self.l1} "
            f"+ l2 {self.l2} + external {self.external} + computed {self.computed} with no part below 0",
            where="TokenSplit",
            fix="report the engine release and its record; the tokens of this reading are not counted",
        )

    def __add__(self, other: TokenSplit) -> TokenSplit:
        return TokenSplit(
            self.prompt + other.prompt,
            self.l0 + other.l0,
            self.l1 + other.l1,
            self.l2 + other.l2,
            self.external + other.external,
            self.computed + other.computed,
        )

    def of(self, origin: Origin) -> int:
        """Tokens of one origin."""
        return int(getattr(self, origin.value))

    def as_dict(self) -> dict[str, int]:
        """The six numbers by name, in the order of the sum."""
        return {"prompt": self.prompt, **{origin.value: self.of(origin) for origin in Origin}}


NO_TOKENS = TokenSplit(prompt=0)


class RequestStatus(StrEnum):
    """What became of an admission, as far as its prompt is concerned."""

    SERVED = "served"
    """Reached its first token: the only status that counts in token sums, and only at attempt 0."""
    ABORTED = "aborted"
    """Ended before its first token."""
    READMITTED = "readmitted"
    """Admitted again after a preemption (attempt > 0); its prompt was counted at attempt 0."""
    UNRESOLVED = "unresolved"
    """Neither first token nor end was seen before it was forgotten; the source's completeness says why."""


class ExternalReason(StrEnum):
    """Why tokens that came through a connector are `external` and not of a known tier."""

    NOT_REPORTED = "tier_not_reported"
    """The engine or connector does not say which tier served the load."""
    LOOKUP_MISSING = "lookup_missing"
    """The cache server that knows the split sent no matching lookup."""
    LOOKUP_CONTRADICTS = "lookup_contradicts"
    """What the cache server sent as its lookup found less than was loaded, or ended after the admission."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """W3C trace context of the caller; both ids in lower-case hex (32 and 16 digits)."""

    trace_id: str
    span_id: str
    sampled: bool = True


@dataclass(frozen=True, slots=True)
class TierLoad:
    """One load of chunks out of a tier for one request; None means the cache server does not say."""

    tier: Tier
    ended_unix_seconds: float
    started_unix_seconds: float | None = None
    blocks: int | None = None
    size_bytes: int | None = None
    adapter: str | None = None


UNKNOWN_MODEL = "unknown"
"""The model of a record before its engine has told it, and of files whose names say none."""


@dataclass(frozen=True, slots=True)
class TierStore:
    """One copy of a request's chunks from its engine into a tier; None means the server does not say."""

    tier: Tier
    ended_unix_seconds: float
    started_unix_seconds: float | None = None
    blocks: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """What the cache server below the engine found for an admission, and what it loaded for it.

    Tokens are of the prompt from its start, also those that the engine itself has: they say what a tier
    had, the record's split says what it served. `l1_hit_tokens` are those that L1 alone has; L2 has the rest.
    `first_chunk_hash` is the server's name of the prompt's first chunk; None for a prompt without one.
    """

    server: str
    ended_unix_seconds: float
    hit_tokens: int
    l1_hit_tokens: int
    started_unix_seconds: float | None = None
    loads: tuple[TierLoad, ...] = ()
    first_chunk_hash: int | None = None


AdmissionName = tuple[EngineId, str, int, float]
"""Engine, request, attempt and time of an admission: clients may use one request id twice."""


@dataclass(frozen=True, slots=True)
class LateMove:
    """What a cache server moved for an admission and told when that had been told already."""

    admission: AdmissionName
    server: str
    move: TierLoad | TierStore


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One admission of one request into one engine. The unit of every sum we publish.

    `block_hashes` are the chained hashes of the prompt's full blocks in order (each names its whole
    prefix), `block_tokens` their size. Times are unix seconds; durations are seconds; None means the
    engine did not say. `session_hash` and `salt_hash` are keyed hashes, never the raw values.
    """

    engine: EngineId
    model: str
    request_id: str
    attempt: int
    status: RequestStatus
    tokens: TokenSplit
    block_tokens: int
    block_hashes: tuple[int, ...]
    arrived_unix_seconds: float
    admitted_unix_seconds: float
    chunk_tokens: int | None = None
    external_reason: ExternalReason | None = None
    queue_seconds: float | None = None
    load_seconds: float | None = None
    ttft_seconds: float | None = None
    session_hash: int | None = None
    salt_hash: int | None = None
    trace: TraceContext | None = None
    asks_cache: bool = True
    """False where the request looks in no cache by its nature (prompt_logprobs, some pooling)."""
    lookup: CacheLookup | None = None
    """None where no cache server tells its lookups, or none was told for this admission."""
    adapter: str | None = None
    """Name of the LoRA adapter that was asked for; None for the model itself, or where nobody told."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise BadInput(
                problem,
                where=f"request {self.request_id} of engine {self.engine}",
                fix="check that the hook and the exporter are of releases that know each other",
            )

    def _problem(self) -> str | None:
        if self.attempt < 0:
            return f"attempt {self.attempt} is negative"
        if (self.attempt > 0) != (self.status is RequestStatus.READMITTED):
            return f"attempt {self.attempt} cannot have the status {self.status}"
        if self.block_tokens <= 0:
            return f"block_tokens {self.block_tokens} is not positive"
        if len(self.block_hashes) * self.block_tokens > self.tokens.prompt:
            return (
                f"{len(self.block_hashes)} blocks of {self.block_tokens} tokens are more than "
                f"the prompt's {self.tokens.prompt} tokens"
            )
        if (self.tokens.external > 0) != (self.external_reason is not None):
            return f"{self.tokens.external} external tokens with the reason {self.external_reason}"
        return None

    @property
    def name(self) -> AdmissionName:
        """What it is called among all admissions."""
        return self.engine, self.request_id, self.attempt, self.admitted_unix_seconds

    @property
    def counts(self) -> bool:
        """Whether this admission belongs in token sums (design: first admission, first token reached)."""
        return self.status is RequestStatus.SERVED
