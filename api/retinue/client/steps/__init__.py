"""What is done to runs, step by step: steer, decide, continue, replay, purge. Pure."""
