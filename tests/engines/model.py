"""A language model small enough to serve anywhere: random weights, and a tokenizer that is a word list.

One word is one token, so a test knows how long its prompts are without asking.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

SPECIAL = ("<unk>", "<end>", "<system>", "<user>", "<assistant>")
WORDS = tuple(f"w{number}" for number in range(2043))
VOCABULARY = SPECIAL + WORDS

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": len(VOCABULARY),
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def write_model(folder: Path) -> None:
    """Write the model's files, unless they are there. Its weights are made up when it is loaded."""
    if (folder / "config.json").exists():
        return
    draft = folder.with_name(f"{folder.name}.{os.getpid()}.draft")
    draft.mkdir(parents=True)
    for name, document in _files().items():
        (draft / name).write_text(json.dumps(document), encoding="utf-8")
    draft.rename(folder)


def _files() -> dict[str, object]:
    added = [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, word in enumerate(SPECIAL)
    ]
    vocabulary = {word: number for number, word in enumerate(VOCABULARY)}
    return {
        "config.json": CONFIG,
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1},
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 2048,
            "unk_token": "<unk>",
            "bos_token": "<end>",
            "eos_token": "<end>",
            "pad_token": "<end>",
            "add_bos_token": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
