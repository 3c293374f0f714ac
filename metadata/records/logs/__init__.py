"""Records of logs: names, records with their latest segments, pages of earlier ones."""
