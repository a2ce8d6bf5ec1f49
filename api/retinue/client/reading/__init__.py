"""What readers are told of runs, trees, sessions and workers."""
