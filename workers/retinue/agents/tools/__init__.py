"""`@tool`: the schema of a function, the arguments of a call, and the text of its result."""
