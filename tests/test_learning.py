"""Learning, by fixed seeds: RESULTS' T0 rows for policy gradients. Runs are bit-reproducible."""
