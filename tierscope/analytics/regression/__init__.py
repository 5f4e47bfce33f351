"""Whether TTFT got worse than its prompts explain, since when, and who did it."""
