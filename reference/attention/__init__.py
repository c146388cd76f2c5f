"""What the exercise `flash_attention` consists of beside its cases: formula, errors, mistakes."""
