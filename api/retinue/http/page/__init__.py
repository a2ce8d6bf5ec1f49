"""The page to watch and steer runs: static files, and how they are named and sent."""
