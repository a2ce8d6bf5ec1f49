"""What `retinue doctor` looks at, and how it says it."""
