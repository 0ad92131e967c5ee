"""Run as a program: one file's name a line on stdin, its facts a line on stdout, in the same order.

A parser is C code on a stranger's text. Here it may run out of memory or time, or crash, at the cost of one
file: the limits end this process, and the crew starts another.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import msgspec

from sf.survey.facts import Asked
from sf.survey.looking import look_into

_MEMORY = 2 << 30


def main(root: Path, seconds_per_file: float) -> None:
    """Answer until stdin ends."""
    # The terminal's interrupt goes to the whole group; the crew decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    decoder, encoder = msgspec.json.Decoder(Asked), msgspec.json.Encoder()
    for line in sys.stdin.buffer:
        asked = decoder.decode(line)
        # In seconds of work, not of the clock: what is found must not depend on how busy the machine is.
        signal.setitimer(signal.ITIMER_PROF, seconds_per_file)
        found = look_into(root, os.fsdecode(asked.name), asked.language)
        sys.stdout.buffer.write(encoder.encode(found) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
