"""From a launch request to what the store writes, and what its refusals mean. Pure."""
