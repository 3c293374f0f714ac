"""The acceptor's rules as programs: generators of effects, one for each call."""
