"""`retinue doctor`: whether this machine, its settings and the store are fit to run subagents."""

from __future__ import annotations

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.options import Json
from retinue.cli.output import document, say


def doctor(as_json: Json = False) -> None:
    """Check what Retinue needs, and say how to mend it.

    Settings, providers, agents, store, broker, clock, handle keys, API keys and workers are looked at. The
    exit code is 1 if there is an error; warnings leave it 0.
    """
    from retinue.cli.doctor.checkup import Outcome, examine

    findings = list(examine())
    healthy = all(finding.outcome is not Outcome.ERROR for finding in findings)
    if as_json:
        document({"healthy": healthy, "findings": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            say(f"{finding.outcome:<7}  {finding.check}: {finding.message}")
            if finding.mend is not None:
                say(f"         to mend: {finding.mend}")
    if not healthy:
        raise typer.Exit(ExitCode.PROBLEM)
