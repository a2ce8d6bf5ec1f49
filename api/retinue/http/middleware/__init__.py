"""What every request passes through: host check, body limits, faults, headers, the log."""
