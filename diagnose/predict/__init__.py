"""What a change buys: a rank's step replayed with it, and the order in which changes pay."""
