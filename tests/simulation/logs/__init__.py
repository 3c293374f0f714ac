"""Writers, readers and truncations of one log: the real log code over modelled ledgers, in virtual time."""
