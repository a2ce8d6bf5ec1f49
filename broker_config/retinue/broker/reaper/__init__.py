"""What mends the traces of lost processes, lost messages and due timers."""
