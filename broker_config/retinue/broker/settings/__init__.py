"""The settings of a process: one class, from arguments, `RETINUE_` variables and `retinue.toml`."""

from __future__ import annotations

from .process import Settings, load_settings, reset_settings

__all__ = ["Settings", "load_settings", "reset_settings"]
