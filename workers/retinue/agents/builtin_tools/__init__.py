"""The tools that Retinue gives to models: delegate, look after children, ask, submit a result."""
