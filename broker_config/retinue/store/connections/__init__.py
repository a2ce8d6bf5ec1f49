"""How the store is reached: URLs, Sentinel, connections, links and subscriptions, in two colours."""
