"""Records of logs: their names, the records with their latest segments, and the pages of earlier segments."""
