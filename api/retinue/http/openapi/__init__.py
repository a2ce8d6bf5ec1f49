"""The document of the API: built from the routes, and held in docs/openapi.json."""
