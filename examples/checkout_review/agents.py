"""What workers import: the team of team.yaml, and the tools that its members name."""

from __future__ import annotations

from pathlib import Path

from checkout_review.tools import count_files, largest_modules, outline_module, search_text

from retinue.agents.agentspec.loading import load_agent_spec

__all__ = ["count_files", "largest_modules", "outline_module", "search_text", "team"]

team = load_agent_spec(Path(__file__).with_name("team.yaml"))
