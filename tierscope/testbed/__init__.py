"""A deployment without GPUs that speaks the engines' wire formats, with an engine model of its own."""
