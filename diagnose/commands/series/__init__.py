"""Judge the step times of a whole job: since when it is slower, by how much, where, and which steps to look at."""
