"""Other ways to start the engine: only what is allowed, only where L0 can be told, and as a patch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import workloads as w
from tierscope.advice.document import ApplyFormat
from tierscope.advice.readings import read_tiers
from tierscope.advice.sizing.engine import AS_IT_IS, starts
from tierscope.advice.sizing.engine_patches import apply_engine, engine_risks, with_arguments
from tierscope.advice.study import Study, study_of
from tierscope.domain.deployment import Deployment, EngineOptions, Objective, ObjectiveKind
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import ResourceKind, Wiring

BLOCK = w.BLOCK_TOKENS * w.BYTES_PER_TOKEN
WIRED = Wiring(
    engine_args=("--gpu-memory-utilization=0.75",), gpu_memory_ratio=0.75, instance_types=("ml.example",)
)
GPU = InstanceFigures("ml.example", 1.0, gpu_memory_bytes=1024 * BLOCK)


def deployed(
    options: EngineOptions, wiring: Wiring | None = WIRED, gpu: InstanceFigures = GPU, **fields: object
) -> Deployment:
    objective = Objective(ObjectiveKind.HIT_RATIO, 0.9, prices=Prices(instances=(gpu,)), engine=options)
    return w.deployment(
        80 * w.CHUNK_BYTES, l0_bytes=128 * BLOCK, objective=objective, wiring=wiring, **fields
    )


def study(deployment: Deployment) -> Study:
    evidence = w.evidence(w.window(w.cycle(40, 400)))
    return study_of(evidence, deployment, read_tiers(evidence, deployment), w.CHUNK_TOKENS)


def found(deployment: Deployment) -> dict[str, tuple[int | None, float]]:
    """Size of L0 and bytes of a token by the arguments that differ."""
    return {
        " ".join(f"{name}={value}" for name, value in start.arguments.items()): (
            start.l0_blocks,
            start.bytes_ratio,
        )
        for start in starts(study(deployment), l0_is_trusted=True)
    }


def test_another_share_of_gpu_memory_is_another_l0():
    """An eighth of a GPU of 1,024 blocks, on each of two GPUs."""
    options = EngineOptions(gpu_memory_ratios=(0.75, 0.875))

    assert found(deployed(options, tensor_parallel=2)) == {
        "": (None, 1.0),
        "--gpu-memory-utilization=0.875": (384, 1.0),
    }


def test_narrower_values_make_room_for_twice_as_many():
    """Both together: (128 + 128) blocks, twice as many of half the bytes."""
    options = EngineOptions(gpu_memory_ratios=(0.875,), cache_dtypes=("fp8", "fp8_ds_mla"))

    assert found(deployed(options)) == {
        "": (None, 1.0),
        "--kv-cache-dtype=fp8": (256, 0.5),
        "--gpu-memory-utilization=0.875": (256, 1.0),
        "--gpu-memory-utilization=0.875 --kv-cache-dtype=fp8": (512, 0.5),
    }


@pytest.mark.parametrize(
    ("wiring", "gpu"),
    [
        (replace(WIRED, gpu_memory_ratio=None), GPU),
        (WIRED, replace(GPU, gpu_memory_bytes=None)),
        (WIRED, replace(GPU, name="ml.other")),
        (None, GPU),
    ],
    ids=["its share is not told", "its memory is not told", "another instance", "no wiring"],
)
def test_an_l0_that_cannot_be_told_is_not_offered(wiring, gpu):
    """No default is guessed."""
    assert list(found(deployed(EngineOptions(gpu_memory_ratios=(0.9,)), wiring, gpu))) == [""]


def test_an_l0_that_the_model_misses_is_left_alone():
    """Sizes of L0 rest on a model that describes today's."""
    of = study(deployed(EngineOptions(gpu_memory_ratios=(0.9,))))

    assert list(starts(of, l0_is_trusted=False)) == [AS_IT_IS]


def test_the_longest_request_is_shortened_only_where_it_may_be():
    """L0 of 64 blocks holds 1,024 tokens, and the engine is told to take 2,000."""
    smaller = EngineOptions(gpu_memory_ratios=(0.6875,))
    wiring = replace(WIRED, max_model_len=2000)

    assert list(found(deployed(smaller, wiring))) == [""]
    allowed = found(deployed(replace(smaller, least_model_len=600), wiring))
    assert allowed["--gpu-memory-utilization=0.6875 --max-model-len=1024"] == (64, 1.0)


def test_an_l0_below_the_longest_prompt_is_never_offered():
    """The prompts of the window have 257 tokens, 17 blocks."""
    options = EngineOptions(gpu_memory_ratios=(0.640625, 0.65625))

    assert list(found(deployed(options))) == ["", "--gpu-memory-utilization=0.65625"]


def test_a_restarted_study_has_more_in_every_tier():
    """Half the bytes a token: twice the chunks in the same L1."""
    before = study(deployed(EngineOptions()))
    after = before.restarted(640, 0.5)

    assert after.units(Tier.L1, 80 * w.CHUNK_BYTES) == 2 * before.units(Tier.L1, 80 * w.CHUNK_BYTES)
    assert after.l0_tokens.sum() > before.l0_tokens.sum()


def test_the_patch_rests_on_the_arguments_it_replaces():
    """A resource that has changed since refuses it."""
    [step] = apply_engine(deployed(EngineOptions()), {"--gpu-memory-utilization": "0.9"})

    assert step.format is ApplyFormat.JSON_PATCH
    assert step.document == [
        {"op": "test", "path": "/spec/worker/args", "value": ["--gpu-memory-utilization=0.75"]},
        {"op": "add", "path": "/spec/worker/args", "value": ["--gpu-memory-utilization=0.9"]},
    ]
    assert "restart" in step.what


def test_without_the_list_the_arguments_are_named():
    """A JumpStartModel has no list of arguments, and a script's end is not always its command's."""
    jumpstart = replace(WIRED, kind=ResourceKind.JUMPSTART_MODEL)
    script = replace(WIRED, engine_args=("-c", "vllm serve model; sleep 5"))
    for wiring in (None, jumpstart, script):
        [step] = apply_engine(deployed(EngineOptions(), wiring), {"--kv-cache-dtype": "fp8"})

        assert (step.format, step.document) == (ApplyFormat.ARGUMENTS, {"--kv-cache-dtype": "fp8"})


@pytest.mark.parametrize(
    ("args", "after"),
    [
        (["--kv-cache-dtype", "auto", "--x"], ["--kv-cache-dtype", "fp8", "--x"]),
        (["--kv_cache_dtype=auto"], ["--kv_cache_dtype=fp8"]),
        (
            ["-c", "vllm serve m --kv-cache-dtype auto -tp 4"],
            ["-c", "vllm serve m --kv-cache-dtype fp8 -tp 4"],
        ),
        (["--x"], ["--x", "--kv-cache-dtype=fp8"]),
        ([], ["--kv-cache-dtype=fp8"]),
    ],
)
def test_an_option_is_set_as_it_is_written(args, after):
    """As two words, as one, in a script, with either dash; else it is added."""
    assert with_arguments(args, {"--kv-cache-dtype": "fp8"}) == after


def test_every_argument_brings_its_risk():
    """Quality, memory, refused requests; and that engines restart."""
    told = " ".join(
        engine_risks({"--kv-cache-dtype": "fp8", "--gpu-memory-utilization": "0.9", "--max-model-len": "800"})
    )

    for word in ("restart", "quality", "out of memory", "refused"):
        assert word in told
