"""The acceptor's rules as programs: one generator of effects for each kind of call."""
