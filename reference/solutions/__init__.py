"""Staff solutions: one Triton kernel file per exercise, from which the starter files are cut; never in a handout.

Every file stands alone, as a student's does. `# solution: begin` and `# solution: end` mark what a student writes.
"""
