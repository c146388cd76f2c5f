"""Turns every test report into a pass, if pytest loads it."""

import pytest

print("HIJACKED conftest")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome = "passed"
