"""What one token's KV values weigh, by the shape of the model: grouped, latent, sliding and narrow caches.

Every rank of a tensor-parallel group holds its share of the KV heads, at least one: with more ranks than
heads, heads are held twice. A latent cache (MLA) has no heads to share, so every rank holds all of it, but
L1 and L2 keep the copy of one rank. Layers of linear attention hold nothing that grows with the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

WIDTH_BYTES = {"float32": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}
NARROW_CACHES = ("fp8", "float8", "int8")
"""Beginnings of the cache types that take one byte a value."""
DEEPSEEK_FP8_BYTES = 656.0
"""A token's latent of one layer as `fp8_ds_mla` packs it: values, scales and the unquantised rotary part."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model's configuration decides the size of its cache.

    `latent_values` are those of a token and layer in a latent cache, None where keys and values are kept by
    head. Of the `layers` that keep keys and values, `sliding_layers` look back `window_tokens` at most.
    """

    layers: int
    kv_heads: int
    head_values: int
    value_bytes: float
    latent_values: int | None = None
    sliding_layers: int = 0
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class KvSize:
    """Bytes of one token. `stored` is what L1 and L2 keep of it, `gpu` what all ranks' GPUs hold together.

    `gpu_beyond_window` is what a further token takes on the GPUs once it is out of every sliding window.
    """

    stored: float
    gpu: float
    gpu_beyond_window: float


def shape_of(config: Mapping[str, object]) -> ModelShape | None:
    """Read a model's `config.json`; None where it does not say what is needed."""
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        config = {**config, **inner}
    layers, heads = _whole(config, "num_hidden_layers"), _whole(config, "num_attention_heads")
    hidden = _whole(config, "hidden_size")
    width = WIDTH_BYTES.get(str(config.get("torch_dtype") or config.get("dtype")))
    if layers is None or heads is None or width is None:
        return None
    head = _whole(config, "head_dim") or (hidden // heads if hidden else None)
    if head is None:
        return None
    latent = _whole(config, "kv_lora_rank")
    kinds = config.get("layer_types")
    linear = sum(kind == "linear_attention" for kind in kinds) if isinstance(kinds, list) else 0
    window = _whole(config, "sliding_window") if config.get("use_sliding_window", True) else None
    return ModelShape(
        layers=layers - linear,
        kv_heads=_whole(config, "num_key_value_heads") or heads,
        head_values=head,
        value_bytes=width,
        latent_values=None if latent is None else latent + (_whole(config, "qk_rope_head_dim") or 0),
        sliding_layers=_sliding(kinds, layers) if window else 0,
        window_tokens=window,
    )


def kv_size(shape: ModelShape, cache_dtype: str | None, ranks: int) -> KvSize:
    """Size of a token on `ranks` GPUs; `cache_dtype` as the engine is told, None or auto: the model's own.

    >>> qwen2_7b = ModelShape(layers=28, kv_heads=4, head_values=128, value_bytes=2.0)
    >>> kv_size(qwen2_7b, None, 1).stored
    57344.0
    """
    width = shape.value_bytes
    if cache_dtype is not None and cache_dtype.startswith(NARROW_CACHES):
        width = 1.0
    if shape.latent_values is not None:
        packed = DEEPSEEK_FP8_BYTES if cache_dtype == "fp8_ds_mla" else shape.latent_values * width
        layer, copies = packed, ranks
        stored = layer * shape.layers
    else:
        held = ranks * max(math.ceil(shape.kv_heads / ranks), 1)
        layer, copies = 2 * held * shape.head_values * width, 1
        stored = layer * shape.layers
    full = shape.layers - shape.sliding_layers
    return KvSize(stored, layer * copies * shape.layers, layer * copies * full)


def cache_value_bytes(cache_dtype: str | None) -> float | None:
    """Bytes of one value of an ordinary cache; None for one that packs its values, or that is not known.

    The model's own type (None or auto) is taken to have two bytes, as every served model of today has.

    >>> cache_value_bytes("fp8_e4m3"), cache_value_bytes("auto"), cache_value_bytes("fp8_ds_mla")
    (1.0, 2.0, None)
    """
    if cache_dtype in {None, "auto"}:
        return 2.0
    assert cache_dtype is not None
    if cache_dtype == "fp8_ds_mla":
        return None
    return 1.0 if cache_dtype.startswith(NARROW_CACHES) else WIDTH_BYTES.get(cache_dtype)


def _sliding(kinds: object, layers: int) -> int:
    """Layers with a sliding window; all of them where the configuration does not tell layers apart."""
    if not isinstance(kinds, list):
        return layers
    return sum(kind == "sliding_attention" for kind in kinds)


def _whole(config: Mapping[str, object], name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
