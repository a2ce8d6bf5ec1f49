"""What a process has declared, by name, and what it advertises of that."""
