"""Checks of boards, rules and our own source text, beyond what the builders refuse.

Each check returns problems as sentences with their place; nothing here reads a metric name from
anywhere but the table.
"""
