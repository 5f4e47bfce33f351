"""What a token weighs in the caches of known models."""

from __future__ import annotations

import pytest

from tierscope.domain.kv_size import KvSize, kv_size, shape_of

QWEN2_7B = {
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584,
    "torch_dtype": "bfloat16", "sliding_window": 131072, "use_sliding_window": False,
}  # fmt: skip
DEEPSEEK_V3 = {
    "num_hidden_layers": 61, "num_attention_heads": 128, "hidden_size": 7168, "torch_dtype": "bfloat16",
    "kv_lora_rank": 512, "qk_rope_head_dim": 64,
}  # fmt: skip
GPT_OSS = {
    "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "hidden_size": 2880, "torch_dtype": "bfloat16", "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}  # fmt: skip


def size(config: dict, dtype: str | None = None, ranks: int = 1) -> KvSize:
    shape = shape_of(config)
    assert shape is not None
    return kv_size(shape, dtype, ranks)


def test_grouped_heads_are_shared_by_ranks_until_there_are_more_ranks_than_heads():
    """Four KV heads: one, two and four ranks hold as much together as one; eight hold each head twice."""
    assert [size(QWEN2_7B, ranks=ranks).stored for ranks in (1, 2, 4)] == [57344.0] * 3
    assert size(QWEN2_7B, ranks=8).stored == 2 * 57344.0


def test_a_latent_cache_is_whole_on_every_rank_and_stored_once():
    """576 values a token and layer; L1 and L2 keep one rank's copy."""
    assert size(DEEPSEEK_V3, ranks=8) == KvSize(576 * 2 * 61, 8 * 576 * 2 * 61, 8 * 576 * 2 * 61)
    assert size(DEEPSEEK_V3, "fp8_ds_mla").stored == 656 * 61


def test_sliding_layers_hold_nothing_beyond_their_window():
    """Half of the layers look back 128 tokens: past them a token weighs half on the GPU, all of it below."""
    found = size(GPT_OSS)

    assert found.stored == found.gpu == 2 * 8 * 64 * 2 * 24
    assert found.gpu_beyond_window == found.gpu / 2


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_a_narrow_cache_takes_one_byte_a_value(dtype):
    """Whatever the model's own type."""
    assert size(QWEN2_7B, dtype).stored == 57344.0 / 2


def test_layers_of_linear_attention_hold_nothing_a_token():
    """A hybrid model's state does not grow with the prompt."""
    hybrid = {**QWEN2_7B, "layer_types": ["linear_attention"] * 21 + ["full_attention"] * 7}

    assert size(hybrid).stored == 57344.0 / 4


def test_a_model_of_text_and_images_has_its_text_part_inside():
    """The text model's own fields count."""
    assert size({"text_config": QWEN2_7B, "num_hidden_layers": 3}).stored == 57344.0


@pytest.mark.parametrize(
    "lacking", ["num_hidden_layers", "num_attention_heads", "torch_dtype", "hidden_size"]
)
def test_what_does_not_say_enough_has_no_size(lacking):
    """No size is made up."""
    assert shape_of({key: value for key, value in QWEN2_7B.items() if key != lacking}) is None
