"""A real browser for the tests of the pages. They are skipped here, and only here, where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[browser]'")
    pytest.importorskip("axe_playwright_python", reason="needs axe: pip install -e '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, as the package chromium has it")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()
