"""Agent Spec documents as plain values; only what reads one imports pyagentspec."""
