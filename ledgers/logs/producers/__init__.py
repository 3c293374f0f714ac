"""Records that are stored once: the state that a log keeps of their producers."""
