"""A job's input pipeline: what the probe measured of it in, rates, workers and the gains of other batching out."""
