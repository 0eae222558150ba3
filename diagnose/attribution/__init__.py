"""Where the time of a step goes: disjoint pieces that cover it, each with one cause."""
