"""Trace-driven simulator of tiers and routers."""
