"""The bytes: frames, calls, messages, segment files."""
