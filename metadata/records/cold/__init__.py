"""Records of ledgers' copies in object stores."""
