"""A real Slurm on one machine: a controller, a node with eight CPUs and four GPUs that are devices of no use, munge.

Needs root and the Debian packages that CONTRIBUTING.md lists; stops all that it starts.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "munged", "setpriv")
GPUS = 4
_CONF = """\
ClusterName=single
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 Gres=gpu:fake:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here, "" where there can."""
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed: see CONTRIBUTING.md"
    return "" if os.getuid() == 0 else "starting a Slurm needs root"


class SingleSlurm:
    """Runs while its context is open; `SLURM_CONF` then names it for every Slurm command."""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir()
        host = socket.gethostname().partition(".")[0]
        conf = _CONF.format(host=host, ports=_free_ports(2), folder=self.folder, gpus=GPUS)
        (self.folder / "slurm.conf").write_text(conf)
        devices = f"{self.folder}/gpu[0-{GPUS - 1}]"
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nNodeName={host} Name=gpu Type=fake File={devices}\n")
        for index in range(GPUS):  # Slurm gives no CUDA_VISIBLE_DEVICES for what is no device
            os.mknod(self.folder / f"gpu{index}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        try:
            self._munge()
            self._start(["slurmctld", "-D", "-f", os.environ["SLURM_CONF"]])
            self._start(["slurmd", "-D", "-f", os.environ["SLURM_CONF"], "-N", host])
            _wait_for(lambda: "idle" in _say("sinfo", "--noheader", "--format=%t"), f"an idle node, see {self.folder}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _say("scancel", "--user=root")
        deadline = time.monotonic() + 10
        while self.queue() and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = self._before
        shutil.rmtree(self.folder, ignore_errors=True)

    def queue(self) -> dict[str, str]:
        """The jobs that are pending, running or ending, and which of these."""
        return dict(line.split() for line in _say("squeue", "--noheader", "--format=%i %T").splitlines())

    def _munge(self) -> None:
        home = self.folder / "munge"
        key = home / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for path in (home, key):
            shutil.chown(path, "munge", "munge")
        names = ("socket", "pid-file", "log-file", "seed-file")
        self._start(["setpriv", "--reuid=munge", "--regid=munge", "--init-groups", "munged", "--foreground",
                     f"--key-file={key}", *(f"--{name}={home / name}" for name in names)])  # fmt: skip
        _wait_for((home / "socket").exists, f"munged, see {home}")

    def _start(self, command: list[str]) -> None:
        with (self.folder / f"{command[0]}.out").open("wb") as sink:
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink))


def _say(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def _wait_for(happens: object, what: str) -> None:
    deadline = time.monotonic() + 30
    while not happens():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(f"there is no {what}")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
