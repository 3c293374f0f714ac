"""What a bookie keeps and answers, from the pure core to the class that holds it all."""
