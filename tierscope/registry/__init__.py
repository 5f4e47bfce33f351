"""The metric table and the span table: the only place such a name is spelled."""
