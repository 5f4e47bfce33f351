"""Trace-driven simulation: what other tier sizes, rules, eviction policies and routers would have done."""
