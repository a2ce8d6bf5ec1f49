"""The routes, a module for each subject; each asks a facade and shapes its answer."""
