"""vLLM: metrics page, KV events, hook records."""
