"""Which version of a package is installed. Imports nothing of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(name: str, otherwise: str) -> str:
    """The version, or `otherwise` where the package is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return otherwise
