"""Records that are stored once: the state of their producers that a log keeps."""
