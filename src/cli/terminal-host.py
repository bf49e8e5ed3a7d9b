"""Runs a command on a pseudo-terminal for the monitor's tests.

Standard input goes to the terminal's keyboard, what appears on its screen to standard output. Standard error
gets "pid N" at the start, and at the end one line: the exit status and whether the terminal is as it was.
"""
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios

ROWS, COLUMNS = 24, 80

screen, keyboard = pty.openpty()
fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
before = termios.tcgetattr(keyboard)


def own_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


child = subprocess.Popen(sys.argv[1:], stdin=keyboard, stdout=keyboard, stderr=keyboard, preexec_fn=own_terminal)
print("pid", child.pid, file=sys.stderr, flush=True)
sources = [screen, 0]
while child.poll() is None:
    ready, _, _ = select.select(sources, [], [], 0.05)
    if screen in ready:
        os.write(1, os.read(screen, 65536))
    if 0 in ready:
        keys = os.read(0, 65536)
        if keys:
            os.write(screen, keys)
        else:
            sources.remove(0)
while select.select([screen], [], [], 0)[0]:
    os.write(1, os.read(screen, 65536))
status = child.returncode if child.returncode >= 0 else 128 - child.returncode
restored = termios.tcgetattr(keyboard) == before
print("status", status, "restored" if restored else "NOT RESTORED", file=sys.stderr, flush=True)
