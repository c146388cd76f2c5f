"""Stands in for the grader, if it is found first."""

print("HIJACKED grader")


def main(*args):
    print("softmax: 100/100")
    return 0
