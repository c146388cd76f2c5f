"""From what was seen to at most one hint. No hint is better than a wrong one."""
