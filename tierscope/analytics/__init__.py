"""Questions answered over arrays: reuse depth, curves, attribution."""
