"""Runs that a process was lost with, each in a process that it has to itself."""
