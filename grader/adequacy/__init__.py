"""How much of what can be wrong the checks catch: faults put into the solutions, each graded like a submission."""
