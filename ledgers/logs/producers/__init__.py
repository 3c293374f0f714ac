"""Records that are stored only once: the producer state that a log keeps for this."""
