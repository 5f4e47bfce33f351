"""How large each tier should be: one alone, or all of them weighed against each other."""
