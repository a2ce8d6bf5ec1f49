"""Agent Spec documents whose tools are answered over the network, as workers load them."""

from __future__ import annotations

from retinue.agents import load_agent_spec

advisor = load_agent_spec("howto_agent_with_remote_tools.yaml", name="advisor")
payroll = load_agent_spec("howto_mcp_agent.yaml", name="payroll")
