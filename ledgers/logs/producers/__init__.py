"""Records that are stored once: what a log knows of those who append them."""
