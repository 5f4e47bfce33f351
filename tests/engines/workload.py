"""A seeded workload for one engine server: what a cache makes easy, and what makes counting hard.

Evictions, preemptions, a full queue, repeats, conversations, salts, several answers to one prompt, prompt
logprobs, prompts too short or too long, clients that leave while generating and while waiting.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import httpx

from tests.engines.model import WORDS
from tests.engines.server import MAX_SEQUENCES, MODEL_NAME, eventually

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TIMEOUT_SECONDS = 300.0
HANG_UP_SECONDS = (0.25, 0.1, 0.05, 0.02)
"""How long a client in a queue waits before it leaves; behind a full queue a fast engine answers in 0.2 s."""

Json = dict[str, object]


@dataclass(frozen=True)
class Sent:
    """One request as its client knows it. Tokens are the API's own `usage`; None where it gave none."""

    request_id: str
    phase: str
    status: int
    answers: int = 1
    left: bool = False
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    text: str = ""


def caller_of(request_id: str) -> tuple[bytes, bytes]:
    """Return the trace and the span in which a traced workload sends a request."""
    digest = hashlib.sha256(request_id.encode()).digest()
    return digest[:16], digest[16:24]


@dataclass
class Workload:
    """Sends requests to one server and remembers what came of them; use it as a context manager.

    `scale` shortens or lengthens the repeated phases. `headers` go with every request; `traced` ones are each
    in a trace of its own (`caller_of`).
    """

    url: str
    seed: int = 1
    scale: float = 1.0
    headers: dict[str, str] = field(default_factory=dict)
    traced: bool = False
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = httpx.Client(base_url=self.url, timeout=TIMEOUT_SECONDS)
        self._numbers = iter(range(1_000_000))
        self._lock = threading.Lock()
        self.system = self.words("system", 150)

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self) -> list[Sent]:
        """Send everything, phase after phase, and return all requests."""
        phases: Sequence[Callable[[], None]] = (
            self.shared_prompt,
            self.conversations,
            self.unrelated,
            self.repeats,
            self.oddities,
            self.leaving_while_generating,
            self.crowd,
            self.long_answers,
            self.mixed,
            self.unrelated,
        )
        for phase in phases:
            phase()
        return self.sent

    def words(self, name: object, count: int) -> str:
        """Return `count` words (tokens) that are the same for the same name."""
        return " ".join(random.Random(f"{self.seed} {name}").choices(WORDS, k=count))

    def shared_prompt(self) -> None:
        """Questions after one long instruction."""
        for number in range(self._times(30)):
            self.chat("shared", [_user(self.words(f"question {number}", 20))], max_tokens=4)

    def conversations(self) -> None:
        """Several conversations of several turns, their turns taking turns."""
        histories: list[list[Json]] = [[] for _ in range(self._times(6))]
        for turn in range(5):
            for number, history in enumerate(histories):
                history.append(_user(self.words(f"conversation {number} turn {turn}", 25)))
                answer = self.chat(f"conversation{number}", history, max_tokens=12)
                history.append({"role": "assistant", "content": answer.text})

    def unrelated(self) -> None:
        """Prompts that share nothing and push everything else out; asked again at each call."""
        for number in range(self._times(30)):
            self.complete("unrelated", self.words(f"unrelated {number}", 180), max_tokens=4)

    def repeats(self) -> None:
        """One prompt again and again, one of whole blocks and one that is not."""
        for length in (160, 175):
            for _ in range(self._times(5)):
                self.complete("repeat", self.words(f"repeat {length}", length), max_tokens=4)

    def oddities(self) -> None:
        """Requests that are counted in ways of their own."""
        for number in range(6):
            question = [_user(self.words("salted", 40))]
            self.chat("salted", question, max_tokens=4, cache_salt=f"tenant-{number % 2}")
        for number in range(4):
            self.complete(
                "several", self.words(f"several {number % 2}", 70), max_tokens=4, n=2, temperature=0.8
            )
        for _ in range(3):
            self.complete("logprobs", self.words("logprobs", 100), max_tokens=4, prompt_logprobs=1)
        for number in range(4):
            self.complete("short", self.words(f"short {number}", 5), max_tokens=2)
        for _ in range(3):
            self.complete("one-token", self.words("one token", 64), max_tokens=1)
        self.complete("too-long", self.words("too long", 1500), max_tokens=4)

    def leaving_while_generating(self) -> None:
        """Clients that close their stream after a few words."""
        for number in range(3):
            prompt = self.words(f"leaving {number}", 80)
            self.stream("leaving", prompt, max_tokens=400, leaves=lambda pieces: pieces >= 3)

    def crowd(self) -> None:
        """More long prompts at once than fit, and clients that leave before they are admitted."""
        gone = threading.Event()
        prompts = [self.words(f"crowd {number}", 550) for number in range(2 * MAX_SEQUENCES)]
        jobs: list[Callable[[], object]] = [partial(self.occupying, prompt, gone) for prompt in prompts]
        self._together([*jobs, partial(self.leaving_while_waiting, gone)])

    def occupying(self, prompt: str, gone: threading.Event) -> None:
        """Hold a place in the engine until the others have left, however fast the engine is."""
        while not gone.is_set():
            self.stream("occupying", prompt, max_tokens=400, leaves=lambda _: gone.is_set())
        self.complete("crowd", prompt, max_tokens=30)

    def leaving_while_waiting(self, gone: threading.Event) -> None:
        """Open a request behind a queue that outlasts its client, and hang up.

        A queue of one is not enough: an engine that is still taking in the crowd admits it a step later.
        """
        try:
            for number in range(2):
                self._hang_up(self.words(f"never {number}", 400))
        finally:
            gone.set()

    def _hang_up(self, prompt: str) -> None:
        """Leave before one is admitted: ever sooner where the engine was quick enough to answer."""
        for seconds in HANG_UP_SECONDS:
            long = eventually(lambda: self.waiting() >= MAX_SEQUENCES, TIMEOUT_SECONDS)
            assert long, f"the engine never had a queue of {MAX_SEQUENCES}"
            options = {"prompt": prompt, "max_tokens": 4}
            if self._post("never-admitted", COMPLETIONS, options, leaves_after_seconds=seconds).left:
                return
        raise AssertionError(f"the engine answers within {HANG_UP_SECONDS[-1]} s behind a queue")

    def long_answers(self) -> None:
        """Answers that outgrow the cache together: someone is preempted."""
        prompts = [self.words(f"long answer {number}", 300) for number in range(MAX_SEQUENCES)]
        self._together([partial(self.complete, "long", prompt, max_tokens=330) for prompt in prompts])

    def mixed(self) -> None:
        """Everything the cache has seen, a few at a time and out of order."""
        rng = random.Random(f"{self.seed} mixed")
        jobs: list[Callable[[], Sent]] = []
        for number in range(self._times(20)):
            question = [_user(self.words(f"question {number}", 20))]
            jobs.append(partial(self.chat, "mixed", question, max_tokens=rng.randint(1, 12)))
            prompt = self.words(f"unrelated {rng.randrange(self._times(30))}", 180)
            jobs.append(partial(self.complete, "mixed", prompt, max_tokens=3))
        rng.shuffle(jobs)
        self._together(jobs, at_once=MAX_SEQUENCES)

    def chat(self, phase: str, messages: list[Json], **options: object) -> Sent:
        """Ask with the shared instruction before the messages."""
        instruction = {"role": "system", "content": self.system}
        return self._post(phase, CHAT, {"messages": [instruction, *messages], **options})

    def complete(self, phase: str, prompt: str, **options: object) -> Sent:
        """Ask for the continuation of a prompt."""
        return self._post(phase, COMPLETIONS, {"prompt": prompt, **options})

    def stream(self, phase: str, prompt: str, *, max_tokens: int, leaves: Callable[[int], bool]) -> Sent:
        """Read an answer piece by piece, and hang up as soon as `leaves` says so of the pieces so far."""
        request_id = self._next_id(phase)
        body = self._body({"prompt": prompt, "max_tokens": max_tokens, "stream": True})
        headers = self._headers(request_id)
        left = False
        with (
            httpx.Client(base_url=self.url, timeout=TIMEOUT_SECONDS) as client,
            client.stream("POST", COMPLETIONS, json=body, headers=headers) as response,
        ):
            pieces = 0
            for line in response.iter_lines():
                pieces += line.startswith("data: ")
                if left := leaves(pieces):
                    break
        return self._remember(Sent(request_id, phase, response.status_code, left=left))

    def waiting(self) -> float:
        """Return how many requests the engine holds in its queue."""
        page = self._client.get("/metrics").text
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in page.splitlines()
            if line.startswith("vllm:num_requests_waiting{")
        )

    def _post(
        self, phase: str, path: str, options: Json, *, leaves_after_seconds: float | None = None
    ) -> Sent:
        request_id = self._next_id(phase)
        body = self._body(options)
        headers = self._headers(request_id)
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=leaves_after_seconds or TIMEOUT_SECONDS)
        try:
            response = self._client.post(path, json=body, headers=headers, timeout=timeout)
        except httpx.ReadTimeout:
            if leaves_after_seconds is None:
                raise
            return self._remember(Sent(request_id, phase, 0, left=True))
        answers = int(str(options.get("n", 1)))
        if response.status_code != 200:
            return self._remember(Sent(request_id, phase, response.status_code, answers))
        document = response.json()
        usage = document["usage"]
        choice = document["choices"][0]
        return self._remember(
            Sent(
                request_id,
                phase,
                response.status_code,
                answers,
                prompt_tokens=usage["prompt_tokens"],
                cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
                text=choice["message"]["content"] if "message" in choice else choice["text"],
            )
        )

    def _body(self, options: Json) -> Json:
        return {"model": MODEL_NAME, "temperature": 0, "seed": 0, "ignore_eos": True, **options}

    def _headers(self, request_id: str) -> dict[str, str]:
        headers = {**self.headers, "X-Request-Id": request_id}
        if self.traced:
            trace_id, span_id = caller_of(request_id)
            headers["traceparent"] = f"00-{trace_id.hex()}-{span_id.hex()}-01"
        return headers

    def _next_id(self, phase: str) -> str:
        with self._lock:
            return f"r{next(self._numbers):04d}-{phase}"

    def _remember(self, sent: Sent) -> Sent:
        with self._lock:
            self.sent.append(sent)
        return sent

    def _together(self, jobs: Sequence[Callable[[], object]], *, at_once: int | None = None) -> None:
        with ThreadPoolExecutor(at_once or len(jobs)) as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()

    def _times(self, count: int) -> int:
        return max(1, round(count * self.scale))


def _user(content: str) -> Json:
    return {"role": "user", "content": content}
