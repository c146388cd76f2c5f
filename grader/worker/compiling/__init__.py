"""Compiles a submission's kernels for GPUs that need not be there, from the call the judge would have made.

Untrusted side: runs inside the worker. Import this package before anything patches `triton.language`, because it
remembers Triton as it is at that moment (`pristine`).
"""

from grader.worker.compiling.process import compile_call, prepare
from grader.worker.compiling.records import CallFailed, CompiledKernel, CompilerUnavailable

__all__ = ["CallFailed", "CompiledKernel", "CompilerUnavailable", "compile_call", "prepare"]
