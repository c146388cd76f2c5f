"""What the log of operators calls what PyTorch does: work, a copy, or only another look at a tensor."""

from __future__ import annotations

import pytest
import torch

from grader.fallback import MOVES_NOTHING, NOT_WORK
from grader.worker.operators import OperatorLog

X = torch.arange(64.0).reshape(8, 8)


def logged(call, *, inference: bool = True):
    with torch.inference_mode(inference), OperatorLog() as log:
        call(X)
    return {one["name"]: one for one in log.summary(32)}


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize(
    "call",
    [lambda x: x.T, lambda x: x.mT, lambda x: x.ravel(), lambda x: x.reshape(-1), lambda x: torch.atleast_2d(x),
     lambda x: torch.broadcast_to(x, (2, 8, 8)), lambda x: x.type_as(x), lambda x: x.contiguous()],
)  # fmt: skip
def test_another_look_moves_nothing(call, inference):
    assert set(logged(call, inference=inference)) <= MOVES_NOTHING


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("call", [lambda x: x.T.reshape(-1), lambda x: x.T.ravel(), lambda x: x.T.contiguous()])
def test_a_copy_is_one_and_no_work(call, inference):
    found = set(logged(call, inference=inference))
    assert found - MOVES_NOTHING
    assert found <= NOT_WORK


def test_asking_whether_there_is_a_nan_is_no_work():
    assert set(logged(lambda x: bool(torch.isnan(x).any()), inference=False)) <= NOT_WORK


@pytest.mark.parametrize("inference", [True, False])
def test_work_is_work(inference):
    assert "add_" in logged(lambda x: x.clone().view(-1).add_(1), inference=inference)
    assert "_softmax" in logged(lambda x: torch.softmax(x, -1), inference=False)
    assert not set(logged(lambda x: torch.exp(x.T), inference=inference)) <= NOT_WORK


def test_what_is_filled_is_not_charged_for_the_tensor_whose_form_it_has():
    assert logged(lambda x: x.new_zeros(2), inference=False)["new_zeros"]["bytes_touched"] == 8
    assert logged(torch.zeros_like, inference=False)["zeros_like"]["bytes_touched"] == 256
