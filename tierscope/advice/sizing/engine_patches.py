"""How the engine's arguments are changed in its resource, and what to mind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat
from tierscope.advice.patches import L1_RESTART, RE_RENDER, ROLLOUT
from tierscope.domain.deployment import Deployment
from tierscope.domain.wiring import ResourceKind

ENGINE_TARGET = "worker.args"
ARGS_PATH = "/spec/worker/args"
RISKS = {
    "--gpu-memory-utilization": (
        "More of the GPU's memory for L0 leaves less for activations: with the longest prompts together the "
        "engine may run out of memory. Try it on one replica first."
    ),
    "--kv-cache-dtype": (
        "A narrower cache changes what the model answers: measure its quality first. Blocks of the other "
        "type are of no use: what L1 and L2 hold now is found by nobody afterwards, so both start empty."
    ),
    "--max-model-len": (
        "Longer requests than this are refused from then on. Without it the engine would not start: L0 must "
        "have room for one longest request."
    ),
}
"""What each argument brings with it."""


def apply_engine(deployment: Deployment, arguments: Mapping[str, str]) -> tuple[Apply, ...]:
    """The step that starts the engines with other arguments."""
    where = f"{deployment.endpoint} in namespace {deployment.namespace}"
    wiring = deployment.wiring
    is_known = wiring is not None and wiring.kind is ResourceKind.INFERENCE_ENDPOINT_CONFIG
    after = with_arguments(wiring.engine_args, arguments) if wiring is not None and is_known else None
    if wiring is None or after is None:
        what = f"Start the engines of {where} with these arguments. {L1_RESTART}"
        return (Apply(what, ApplyFormat.ARGUMENTS, dict(arguments)),)
    patch: list[JsonValue] = [{"op": "add", "path": ARGS_PATH, "value": after}]
    if wiring.engine_args:
        patch.insert(0, {"op": "test", "path": ARGS_PATH, "value": list(wiring.engine_args)})
    what = f"Patch the {wiring.kind.value} {where}: the engine's arguments as a whole. {L1_RESTART}"
    return (Apply(what, ApplyFormat.JSON_PATCH, patch),)


def engine_risks(arguments: Mapping[str, str]) -> tuple[str, ...]:
    """What restarts, what is lost, and what each argument brings with it."""
    return (L1_RESTART, RE_RENDER, ROLLOUT, *(RISKS[name] for name in arguments))


def engine_arguments(deployment: Deployment, arguments: Mapping[str, str]) -> str | None:
    """What these arguments are today, as words; None where none of them is set."""
    wiring = deployment.wiring
    if wiring is None:
        return None
    today = {
        "--gpu-memory-utilization": None
        if wiring.gpu_memory_ratio is None
        else f"{wiring.gpu_memory_ratio:g}",
        "--kv-cache-dtype": wiring.cache_dtype,
        "--max-model-len": None if wiring.max_model_len is None else str(wiring.max_model_len),
    }
    known = [f"{name}={today[name]}" for name in arguments if today.get(name) is not None]
    return " ".join(known) or None


def with_arguments(args: Sequence[str], changed: Mapping[str, str]) -> list[JsonValue] | None:
    """Set options in a list of arguments as they are written there; the others stay in their order.

    None where a shell's script would have to be added to: where in it cannot be told.

    >>> with_arguments(["--a", "1", "--b_c=2"], {"--b-c": "3", "--d": "4"})
    ['--a', '1', '--b_c=3', '--d=4']
    """
    after = list(args)
    for name, value in changed.items():
        place = _place_of(after, name)
        if place is not None:
            after[place] = _set_in(after[place], name, value)
        elif (place := _place_before(after, name)) is not None:
            after[place] = value
        elif any(" " in word for word in after):
            return None
        else:
            after.append(f"{name}={value}")
    return list(after)


def _place_of(args: Sequence[str], name: str) -> int | None:
    """Which word holds the option and its value both: `--name=value`, or a script."""
    return next((place for place, word in enumerate(args) if _written(name).search(word)), None)


def _place_before(args: Sequence[str], name: str) -> int | None:
    """Which word is the value of an option that is a word of its own."""
    places = (place + 1 for place, word in enumerate(args[:-1]) if word.replace("_", "-") == name)
    return next(places, None)


def _set_in(word: str, name: str, value: str) -> str:
    return _written(name).sub(lambda found: f"{found['before']}{value}", word)


def _written(name: str) -> re.Pattern[str]:
    """An option with its value inside a word, with either kind of dash."""
    spelled = "[-_]".join(name.removeprefix("--").split("-"))
    return re.compile(rf"(?P<before>(?:^|\s)--{spelled}(?:=|\s+))\S+")
