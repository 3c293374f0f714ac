"""Where every frame and the state of every ledger is found."""
