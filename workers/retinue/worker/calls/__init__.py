"""The calls of a model's response, a kind a module: tools, delegations, handoffs, questions, results."""
