"""What a bookie looks up in the metadata of those who come to it."""
