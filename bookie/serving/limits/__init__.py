"""What peers may use of a bookie: who comes in, what they hold, and who goes when it is short."""
