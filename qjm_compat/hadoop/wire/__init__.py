"""Wire formats of Hadoop: frames, calls, messages, segment files."""
