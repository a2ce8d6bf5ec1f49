"""What can be asked of the store: pure calls, a module for each subject."""
