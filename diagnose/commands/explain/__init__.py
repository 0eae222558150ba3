"""Command: explain a rule, a class, a cause, a fact or a word, with the numbers of a run."""
