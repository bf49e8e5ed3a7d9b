"""Opens listening sockets, hands them over as systemd does (sd_listen_fds(3)), and starts the command again when it died.

  activate.py [--sealed] [--on-demand] SOCKET... -- COMMAND...

SOCKET is NAME=unix:PATH or NAME=HOST:PORT. --sealed: the command gets a network namespace of its own that is empty,
and a seccomp filter by which socket() knows AF_UNIX alone, as PrivateNetwork= and RestrictAddressFamilies= do.
--on-demand: the command is started by the first connection, and by the next one after it has ended with status 0.
A command that a signal ended is started again when a line comes on standard input, and systemd's own exit status is
that of a command that exited.
"""
import ctypes
import errno
import os
import platform
import select
import signal
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SOCKET_CALL = {"x86_64": 41, "aarch64": 198}[platform.machine()]
FIRST_FD = 3

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def opened(text):
    name, _, where = text.partition("=")
    if where.startswith("unix:"):
        found = socket.socket(socket.AF_UNIX)
        found.bind(where[len("unix:"):])
    else:
        host, _, port = where.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        found = socket.socket(family)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), int(port)))
    found.listen(128)
    return name, found


def only_unix_sockets():
    """load nr; socket()? load its first argument; AF_UNIX? allow, else EAFNOSUPPORT; any other call: allow."""
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in [
            (0x20, 0, 0, 0),
            (0x15, 0, 3, SOCKET_CALL),
            (0x20, 0, 0, 16),
            (0x15, 1, 0, socket.AF_UNIX),
            (0x06, 0, 0, 0x00050000 | errno.EAFNOSUPPORT),
            (0x06, 0, 0, 0x7FFF0000),
        ]
    )
    steps = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header), 0, 0))


def run(command, sockets, sealed):
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        # Out of the way first: one of them may be where another one goes.
        held = [os.dup2(one.fileno(), 100 + at) for at, (_, one) in enumerate(sockets)]
        for at, fd in enumerate(held):
            os.dup2(fd, FIRST_FD + at, inheritable=True)
            os.close(fd)
        if sealed:
            check(libc.unshare(CLONE_NEWNET))
            only_unix_sockets()
        os.environ["LISTEN_PID"] = str(os.getpid())
        os.environ["LISTEN_FDS"] = str(len(sockets))
        os.environ["LISTEN_FDNAMES"] = ":".join(name for name, _ in sockets)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def main():
    words = sys.argv[1:]
    end = words.index("--")
    sealed, on_demand = "--sealed" in words[:end], "--on-demand" in words[:end]
    sockets = [opened(word) for word in words[:end] if not word.startswith("--")]
    stopping = False
    pid = 0

    def stop(*_):
        nonlocal stopping
        stopping = True
        if pid == 0:
            sys.exit(0)
        os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    while True:
        if on_demand:
            select.select([one for _, one in sockets], [], [])
        pid = run(words[end + 1 :], sockets, sealed)
        _, status = os.waitpid(pid, 0)
        pid = 0
        if on_demand and status == 0 and not stopping:
            continue
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))
        if not sys.stdin.readline():
            sys.exit(1)


main()
