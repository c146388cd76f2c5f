"""Stands in for triton, if it is found first."""

print("HIJACKED triton")


def jit(function):
    return function
