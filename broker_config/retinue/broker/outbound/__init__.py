"""HTTP to hosts that a document or a tenant names: only where the operator lets it go."""
