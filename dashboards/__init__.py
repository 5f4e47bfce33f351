"""Boards, rules and runbooks, made from the metric table."""
