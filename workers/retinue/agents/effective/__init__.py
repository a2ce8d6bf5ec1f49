"""From declaration, launch, settings and parent to the one spec that a run keeps."""
