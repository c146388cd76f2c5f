"""The system call filter: what it lets through and what it refuses, by running its program on made-up calls."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from grader.worker import seccomp

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMNS = {"x86_64": 0, "aarch64": 1}
ALLOW, KILL = 0x7FFF0000, 0x80000000
ZYGOTE = 1234


def outcome(machine: str, number: int, *arguments: int, gpu: bool = False, arch: int | None = None) -> int:
    """What the filter returns for a call: ALLOW, KILL, or an error number."""
    values = [value & (2**64 - 1) for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("<IIQ6Q", number, ARCHES[machine] if arch is None else arch, 0, *values)
    code = seccomp.program([ZYGOTE], machine, gpu=gpu)
    register, at = 0, 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == seccomp._LOAD:
            register = struct.unpack_from("<I", data, operand)[0]
        elif operation == seccomp._AND:
            register &= operand
        elif operation == seccomp._RETURN:
            return operand & 0xFFFF if operand & 0xFFFF0000 == seccomp._ERROR else operand
        else:
            true = register == operand if operation == seccomp._IF_EQUAL else register >= operand
            at += if_true if true else if_false


def call(machine: str, numbers: tuple[int | None, int | None]) -> int | None:
    return numbers[COLUMNS[machine]]


@pytest.fixture(params=ARCHES)
def machine(request):
    return request.param


def test_every_refused_call_is_an_error(machine):
    for name, numbers in {**seccomp._REFUSED, **seccomp._REFUSED_WITHOUT_GPU}.items():
        if (number := call(machine, numbers)) is not None:
            assert outcome(machine, number) == errno.EPERM, name


def test_ordinary_calls_pass(machine):
    refused = {
        call(machine, numbers) for numbers in (*seccomp._REFUSED.values(), *seccomp._REFUSED_WITHOUT_GPU.values())
    }
    special = {call(machine, each) for each in (seccomp._CLONE3, seccomp._SOCKET)}
    for number in set(range(450)) - refused - special:
        assert outcome(machine, number) == ALLOW, number


def test_new_namespaces_are_refused_and_new_processes_are_not(machine):
    clone = call(machine, seccomp._CLONE)
    assert outcome(machine, clone, 0x10000000 | 17) == errno.EPERM
    assert outcome(machine, clone, 0x40000000 | 17) == errno.EPERM
    assert outcome(machine, clone, 0x01200011) == ALLOW
    assert outcome(machine, call(machine, seccomp._CLONE3)) == errno.ENOSYS


def test_sockets_are_refused_but_for_those_that_cuda_uses(machine):
    number = call(machine, seccomp._SOCKET)
    assert outcome(machine, number, socket.AF_INET) == errno.EACCES
    assert outcome(machine, number, socket.AF_UNIX) == errno.EACCES
    assert outcome(machine, number, socket.AF_INET6, gpu=True) == errno.EACCES
    assert outcome(machine, number, socket.AF_UNIX, gpu=True) == ALLOW


def test_memory_is_shared_by_files_only(machine):
    number = call(machine, seccomp._MMAP)
    assert outcome(machine, number, 0, 4096, 3, 0x21) == errno.EPERM
    assert outcome(machine, number, 0, 4096, 3, 0x22) == ALLOW
    assert outcome(machine, number, 0, 4096, 3, 0x01) == ALLOW
    assert outcome(machine, number, 0, 4096, 3, 0x21, gpu=True) == ALLOW


@pytest.mark.parametrize("name", list(seccomp._SIGNALS))
def test_signals_reach_a_workers_own_processes_only(machine, name):
    number = call(machine, seccomp._SIGNALS[name])
    for target in (ZYGOTE, -ZYGOTE, -1):
        assert outcome(machine, number, target, 9) == errno.EPERM
    for target in (ZYGOTE + 1, 0, -ZYGOTE - 1):
        assert outcome(machine, number, target, 9) == ALLOW


def test_limits_of_other_processes_and_terminals_are_out_of_reach(machine):
    assert outcome(machine, call(machine, seccomp._PRLIMIT), ZYGOTE) == errno.EPERM
    assert outcome(machine, call(machine, seccomp._PRLIMIT), 0) == ALLOW
    assert outcome(machine, call(machine, seccomp._IOCTL), 0, 0x5412) == errno.EPERM
    assert outcome(machine, call(machine, seccomp._IOCTL), 0, 0x5401) == ALLOW


def test_calls_of_another_architecture_do_not_get_around_it(machine):
    assert outcome(machine, 1, arch=0x40000003) == KILL
    if machine == "x86_64":
        assert outcome(machine, 0x40000000 + 101) == errno.ENOSYS


def test_every_jump_ends_inside_the_program(machine):
    code = seccomp.program([1, 2, 3, 4], machine, gpu=False)
    assert len(code) < 4096
    for at, (operation, if_true, if_false, _) in enumerate(code):
        assert max(if_true, if_false) < 256
        if operation in (seccomp._IF_EQUAL, seccomp._IF_AT_LEAST):
            assert at + 1 + max(if_true, if_false) < len(code)
