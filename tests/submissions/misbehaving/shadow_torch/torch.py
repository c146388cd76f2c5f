"""Stands in for torch, if it is found first."""

print("HIJACKED torch")


def allclose(*args, **kwargs):
    return True


class Tensor:
    """Equal to everything."""

    def __eq__(self, other):
        return True
