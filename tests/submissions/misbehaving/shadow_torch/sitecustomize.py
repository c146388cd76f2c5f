"""Runs at the start of every Python process that finds it."""

print("HIJACKED sitecustomize")
