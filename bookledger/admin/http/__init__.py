"""The HTTP port of a daemon: who comes in, what they may, what is answered."""
