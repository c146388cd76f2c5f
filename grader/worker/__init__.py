"""The code of the untrusted process. Launched by the judge, never imported by it."""
