"""Whether the cache servers of this node name the chunks of equal prompts equally."""

from __future__ import annotations

from collections.abc import Iterator

from exporters.lmcache.suspicion import ServerSuspect
from exporters.oddities import Finding
from tierscope.analytics.chunk_names import PromptNames
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity


def name_findings(names: PromptNames, server: str) -> Iterator[Finding]:
    """Yield one finding where others agree with a server on no prompt at all."""
    strangers = names.servers.strangers(server)
    if not strangers:
        return
    pairs = " and ".join(
        f"{server} and {other} ({count} prompts)" for other, count in sorted(strangers.items())
    )
    error = BadInput(
        f"the same prompts have other chunk names in each of two LMCache servers: {pairs}; what one stores "
        "in the shared pool the other never finds",
        where=server,
        fix="give all servers the same --hash-algorithm, best blake3, the default, which needs no seed; "
        "builtin needs one PYTHONHASHSEED everywhere, and before Python 3.12 even that is not enough",
    )
    yield Finding(ServerSuspect.HASH_SEED, Severity.CRITICAL, error)
