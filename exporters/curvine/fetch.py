"""The active master of a Curvine cluster: only its figures mean anything, and any master may be it.

Only paths that read are asked: the same port takes commands by GET.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from exporters.curvine.parse import is_active
from exporters.exposition import Exposition, SeriesCache, parse_exposition
from exporters.fetch import Fetcher
from tierscope.domain.errors import SourceUnreadable


@dataclass(frozen=True, slots=True)
class MasterAnswer:
    """What the active master at `url` answered.

    `workers` and `config` are None where it does not tell them; `refusals` say why.
    """

    url: str
    page: Exposition
    workers: bytes | None
    config: bytes | None
    refusals: tuple[SourceUnreadable, ...] = ()


@dataclass(slots=True)
class Masters:
    """The masters at `urls`. The one that was active last is asked first."""

    urls: Sequence[str]
    _last: str | None = None
    _cache: SeriesCache = field(default_factory=SeriesCache)

    def ask(self, fetcher: Fetcher) -> MasterAnswer:
        """Ask until one is active; a master without its API counts where no other is, and it has workers.

        Raises `SourceUnreadable` that tells what each of them answered when none is.
        """
        refusals: list[str] = []
        silent: list[str] = []
        for base in self._in_order():
            try:
                overview = fetcher.get(f"{base}/api/overview")
                if is_active(overview, where=f"{base}/api/overview"):
                    return self._whole_answer(fetcher, base)
                refusals.append(f"{base} is not active")
            except SourceUnreadable as error:
                refusals.append(f"{base}: {error.what}")
                silent.append(base)
        for base in silent:
            answer = self._page_alone(fetcher, base)
            if answer is not None:
                return answer
        raise SourceUnreadable(
            "no active master was found",
            where="; ".join(refusals) or "no address",
            fix="name every master of the cluster, and check that one of them is active",
        )

    def _in_order(self) -> list[str]:
        bases = [url.rstrip("/") for url in self.urls]
        return sorted(bases, key=lambda base: base != self._last)

    def _whole_answer(self, fetcher: Fetcher, base: str) -> MasterAnswer:
        self._last = base
        page = self._page(fetcher, base)
        refusals: list[SourceUnreadable] = []

        def document(path: str) -> bytes | None:
            try:
                return fetcher.get(base + path)
            except SourceUnreadable as error:
                refusals.append(error)
                return None

        workers, config = document("/api/workers"), document("/api/config")
        return MasterAnswer(base, page, workers, config, tuple(refusals))

    def _page_alone(self, fetcher: Fetcher, base: str) -> MasterAnswer | None:
        """The page of a master whose API does not answer; None where it knows no worker, as on standby."""
        try:
            page = self._page(fetcher, base)
        except SourceUnreadable:
            return None
        if not page.total("worker_num"):
            return None
        refusal = SourceUnreadable(
            "the master's API does not answer; its page alone is read, without workers and settings",
            where=base,
            fix="let the exporter reach /api/overview, /api/workers and /api/config",
        )
        return MasterAnswer(base, page, None, None, (refusal,))

    def _page(self, fetcher: Fetcher, base: str) -> Exposition:
        url = f"{base}/metrics"
        return parse_exposition(fetcher.get(url), where=url, cache=self._cache)
