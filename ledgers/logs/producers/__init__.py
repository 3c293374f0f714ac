"""The producer state that a log keeps so that records are stored only once."""
