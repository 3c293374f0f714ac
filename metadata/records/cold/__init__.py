"""Records of the copies of ledgers in object stores."""
