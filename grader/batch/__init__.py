"""Grades a class: takes submissions in, runs one judge for each, keeps a ledger, writes the book. Trusted side."""
