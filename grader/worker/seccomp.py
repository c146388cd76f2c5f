"""Untrusted side: refuses system calls that no kernel needs and attacks do (seccomp filter, as classic BPF).

The filter is a list of refusals: what CUDA, torch and compilers need changes with their versions. It runs on x86-64
and arm64. Each refusal is an error number, so that a library which only tries something goes on.
"""

from __future__ import annotations

import ctypes
import errno
import platform
from collections.abc import Sequence

from grader.worker import linux

# Numbers on x86-64 and on arm64, in the order of the kernel's tables; None where there is no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # looking into other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "perf_event_open": (298, 241),
    # the kernel's large and risky parts
    "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "modify_ldt": (154, None),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # the machine as a whole
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60), "iopl": (172, None),
    "ioperm": (173, None), "setpriority": (141, 140), "ioprio_set": (251, 30),
    # memory and messages that outlive a process and are in no limit
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
# Shared memory without a file is in no limit of a process either; CUDA's libraries may want it.
_REFUSED_WITHOUT_GPU = {"memfd_create": (319, 279), "memfd_secret": (447, 447)}
# Calls that are refused for some arguments.
_CLONE, _CLONE3, _SOCKET, _MMAP = (56, 220), (435, 435), (41, 198), (9, 222)
_PRLIMIT, _IOCTL = (302, 261), (16, 29)
_SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
            "rt_tgsigqueueinfo": (297, 240)}  # fmt: skip

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NEW_NAMESPACES = 0x7E020080
_AF_UNIX = 1
_SHARED_ANONYMOUS = 0x21
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into a terminal
_X32 = 0x40000000

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_SYS_SECCOMP = (317, 277)
_SET_MODE_FILTER = 1
# Without it, old kernels slow down every process that has a filter: the submission's times would suffer.
_SPEC_ALLOW = 4


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32),
    ]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]


Code = list[tuple[int, int, int, int]]


def restrict(protected: Sequence[int], *, gpu: bool) -> None:
    """Install the filter for this process and its children. `protected` are processes that it may not signal.

    Needs `no_new_privs`. Raises OSError, also on other architectures.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"the system call filter has no table for {machine}")
    code = program(protected, machine, gpu=gpu)
    array = (_Instruction * len(code))(*(_Instruction(*step) for step in code))
    loaded = _Program(len(code), array)
    number = _SYS_SECCOMP[_ARCHITECTURES[machine][0]]
    linux.syscall("seccomp", number, _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(loaded))


def program(protected: Sequence[int], machine: str, *, gpu: bool) -> Code:
    """The filter's instructions: (operation, jump if true, jump if false, operand)."""
    column, arch = _ARCHITECTURES[machine]
    code: Code = [(_LOAD, 0, 0, _ARCH), (_IF_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        code += [(_IF_AT_LEAST, 0, 1, _X32), _error(errno.ENOSYS)]
    refused = _REFUSED | ({} if gpu else _REFUSED_WITHOUT_GPU)
    for numbers in refused.values():
        if (number := numbers[column]) is not None:
            code += [(_IF_EQUAL, 0, 1, number), _error(errno.EPERM)]
    # Its flags lie in memory that a filter can't read; the C library goes on with `clone`.
    code += [(_IF_EQUAL, 0, 1, _CLONE3[column]), _error(errno.ENOSYS)]
    code += _when(_CLONE[column], 0, [(_AND, 0, 0, _NEW_NAMESPACES), (_IF_EQUAL, 1, 0, 0), _error(errno.EPERM)])
    code += _when(_PRLIMIT[column], 0, [(_IF_EQUAL, 1, 0, 0), _error(errno.EPERM)])
    terminal: Code = [(_IF_EQUAL, 1, 0, _TIOCSTI), (_IF_EQUAL, 0, 1, _TIOCLINUX), _error(errno.EPERM)]
    code += _when(_IOCTL[column], 1, terminal)
    if gpu:
        code += _when(_SOCKET[column], 0, [(_IF_EQUAL, 1, 0, _AF_UNIX), _error(errno.EACCES)])
    else:
        shared: Code = [(_AND, 0, 0, _SHARED_ANONYMOUS), (_IF_EQUAL, 0, 1, _SHARED_ANONYMOUS), _error(errno.EPERM)]
        code += [(_IF_EQUAL, 0, 1, _SOCKET[column]), _error(errno.EACCES), *_when(_MMAP[column], 3, shared)]
    # A process, its group, or everything that may be reached (−1), as 32-bit numbers.
    targets = [target & 0xFFFFFFFF for pid in protected for target in (pid, -pid)] + [0xFFFFFFFF]
    spared: Code = [step for target in targets for step in ((_IF_EQUAL, 0, 1, target), _error(errno.EPERM))]
    for numbers in _SIGNALS.values():
        code += _when(numbers[column], 0, spared)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _error(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERROR | number)


def _when(number: int, argument: int, steps: Code) -> Code:
    """For one system call, load the lower half of an argument and take the steps; otherwise skip them."""
    body: Code = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *steps, (_LOAD, 0, 0, _NUMBER)]
    return [(_IF_EQUAL, 0, len(body), number), *body]
