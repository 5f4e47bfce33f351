"""One replica as a client sees it: a prompt in, the first token's time and the engine's usage out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
import msgspec

from tierscope.domain.errors import SourceUnreadable


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    prompt_tokens_details: _Details | None = None


class _Choice(msgspec.Struct):
    text: str = ""


class _Piece(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_PREFIX, _END = "data: ", "[DONE]"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: time from sending to the first token, and what the engine says of the prompt.

    `cached_tokens` is None where the engine does not say (vLLM: --enable-prompt-tokens-details).
    """

    ttft_seconds: float
    prompt_tokens: int
    cached_tokens: int | None


class Replica:
    """A server of the OpenAI API at a base address, asked over one connection that is kept open."""

    def __init__(
        self, url: str, *, model: str | None, monotonic: Callable[[], float], timeout_seconds: float
    ) -> None:
        self.url = url.rstrip("/")
        self._monotonic = monotonic
        self._client = httpx.Client(base_url=self.url, timeout=timeout_seconds, trust_env=False)
        self._model = model

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def model(self) -> str:
        """The model that is asked: the one named, or the first one served. Raises `SourceUnreadable`."""
        if self._model is None:
            body = self._checked(lambda: self._client.get("/v1/models"), "/v1/models").content
            try:
                self._model = msgspec.json.decode(body, type=_Models).data[0].id
            except (msgspec.MsgspecError, IndexError) as error:
                where = f"{self.url}/v1/models"
                raise _unusable(f"its list of models cannot be read: {error}", where) from error
        return self._model

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Answer:
        """Ask for a continuation and read it to its end; raises `SourceUnreadable`."""
        body = {
            "model": self.model(),
            "prompt": list(prompt),
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        where = f"{self.url}/v1/completions"
        started, first, usage = self._monotonic(), None, None
        try:
            with self._client.stream("POST", "/v1/completions", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise _unusable(f"it answered {response.status_code}: {_start(response)}", where)
                for line in response.iter_lines():
                    if not line.startswith(_PREFIX) or line == _PREFIX + _END:
                        continue
                    piece = msgspec.json.decode(line.removeprefix(_PREFIX), type=_Piece)
                    if piece.choices and first is None:
                        first = self._monotonic()
                    usage = piece.usage or usage
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            reason = str(error) or type(error).__name__
            raise _unusable(f"it gave no whole answer: {reason}", where) from error
        if first is None or usage is None:
            raise _unusable("its answer has no token or no usage", where)
        details = usage.prompt_tokens_details
        cached = None if details is None else details.cached_tokens or 0
        return Answer(first - started, usage.prompt_tokens, cached)

    def reset_l0(self) -> None:
        """Empty the prefix cache; raises `SourceUnreadable` where the engine does not offer it."""
        self._checked(lambda: self._client.post("/reset_prefix_cache"), "/reset_prefix_cache")

    def _checked(self, ask: Callable[[], httpx.Response], path: str) -> httpx.Response:
        try:
            response = ask()
        except httpx.HTTPError as error:
            raise _unusable(str(error) or type(error).__name__, self.url + path) from error
        if response.status_code != httpx.codes.OK:
            raise _unusable(f"it answered {response.status_code}", self.url + path)
        return response


def _start(response: httpx.Response) -> str:
    return response.read().decode("utf-8", "replace")[:200]


def _unusable(reason: str, where: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"a replica cannot be measured: {reason}",
        where=where,
        fix="give the base address of a vLLM server; token ids must be of its vocabulary (--token-range), "
        "and --empty-l0 endpoint needs VLLM_SERVER_DEV_MODE=1",
    )
