"""Run libFuzzer in this Python: `python -m tests.guided.driver TARGET`, followed by libFuzzer's own
arguments.

The native modules are compiled with clang and `-fsanitize=fuzzer-no-link`. LD_PRELOAD loads the
sanitizers and libFuzzer without its main(); its entry point is LLVMFuzzerRunDriver
(https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library). `ci/guided` builds both.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback

from tests.guided.targets import TARGETS

TOLD = 1 << 10  # inputs
AGAIN = "MEMREPLAY_GUIDED_AGAIN"


def main(target: str, arguments: list[str]) -> int:
    os.environ.pop("LD_PRELOAD", None)  # for this process only, not for processes that it starts
    judge = TARGETS[target]
    counts = {"went on": 0, "refused": 0}

    def one(data: int, size: int) -> int:
        try:
            counts["went on" if judge(ctypes.string_at(data, size)) else "refused"] += 1
        except BaseException:
            # libFuzzer ignores exceptions that leave this function, but saves the input if the
            # process aborts.
            traceback.print_exc()
            sys.stderr.flush()
            os.abort()
        if sum(counts.values()) % TOLD == 0:
            print(f"judged: {counts}", file=sys.stderr, flush=True)
        return 0

    judged = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(one)
    # libFuzzer restarts itself with this command when it merges corpora.
    again = os.environ.get(AGAIN, "guided")
    words = [os.fsencode(again), *map(os.fsencode, arguments)]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    argc = ctypes.c_int(len(words))
    at = ctypes.cast(argv, ctypes.POINTER(ctypes.c_char_p))
    run = ctypes.CDLL(None).LLVMFuzzerRunDriver
    return int(run(ctypes.byref(argc), ctypes.byref(at), judged))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
