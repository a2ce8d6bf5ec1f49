"""The Valkey that `retinue up` brings along."""
