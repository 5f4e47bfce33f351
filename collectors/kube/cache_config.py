"""LMCache's configuration inside an engine: its file first, then the variables that go before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from tierscope.domain.command_line import number_of
from tierscope.domain.units import GIB

PREFIX = "LMCACHE_"
FILE_VARIABLE = "LMCACHE_CONFIG_FILE"
DEFAULT_LOCAL_GIB = 5.0
DEFAULT_CHUNK_TOKENS = 256
TRUE_WORDS = ("true", "1", "yes", "on")


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """What LMCache inside an engine is told. `local_bytes` is for each rank; 0: there is no L1."""

    local_bytes: float
    chunk_tokens: int
    remote_url: str | None


def cache_config(environment: Mapping[str, str], file_text: str | None) -> CacheConfig:
    """Read what LMCache would: the file, where there is one, then `LMCACHE_…` variables over it.

    Sizes are given in what LMCache calls GB, which are GiB. A file that is no YAML is as if it were empty.
    """
    told = _file(file_text) | {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name != FILE_VARIABLE
    }
    local = _number(told.get("max_local_cpu_size"), DEFAULT_LOCAL_GIB)
    url = told.get("remote_url")
    return CacheConfig(
        local_bytes=local * GIB if _truth(told.get("local_cpu"), default=True) else 0.0,
        chunk_tokens=int(_number(told.get("chunk_size"), DEFAULT_CHUNK_TOKENS)),
        remote_url=str(url) if url else None,
    )


def _file(text: str | None) -> dict[str, object]:
    try:
        document = yaml.safe_load(text) if text else {}
    except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none; brackets without end
        return {}
    return {str(key): value for key, value in document.items()} if isinstance(document, dict) else {}


def _number(value: object, default: float) -> float:
    number = number_of(str(value)) if value is not None else None
    return default if number is None else number


def _truth(value: object, *, default: bool) -> bool:
    return default if value is None else str(value).strip().lower() in TRUE_WORDS
