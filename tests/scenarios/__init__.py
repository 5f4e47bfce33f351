"""Deployments whose best answer is known before the advice is asked: a row of `cases` each.

A row says who is deployed, what comes in, and what the advice must say. Everything that judges it is naive:
records come from caches that really evict (`serving`), best sizes from trying every size (`best`). To add
one, write a row in a file of `cases/` and its best sizes as `best` finds them; the tests do the rest.
"""
