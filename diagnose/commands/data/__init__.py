"""A job's input pipeline: from the probe's measurement to rates, workers and the gains of other batching."""
