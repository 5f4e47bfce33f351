"""The engines' wire formats: streams with replay, records, metrics pages. Nothing here decides anything."""
