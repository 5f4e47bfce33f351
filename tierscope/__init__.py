"""Tierscope: observability and cache analytics for three-tier LLM KV caches."""
