"""Learning curves: runs read, grouped and averaged with intervals; `plot` makes the picture."""
