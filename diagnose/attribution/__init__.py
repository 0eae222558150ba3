"""Attribution of the time of a step: disjoint pieces that cover it, each with one cause."""
