"""One run at work: its attempt, its loop of model requests, and all that may cut it short."""
