"""Runs tools of the tests in copies of a warm process, because Python and MLIR take longer to start than most runs.

    python warm.py serve SOCKET           imports the tools, and forks for each run
    python warm.py SOCKET TOOL ARGS...    runs one tool like `python -m TOOL ARGS...`

The copy uses the folder, arguments, input and output of the caller. The caller ends with the exit code of the copy.
"""

import json
import os
import socket
import sys

TOOLS = "nabla_mlir.tools.opt", "filecheck.__main__"


def call(address: str, arguments: list[str]) -> int:
    """Runs a tool on the server, and returns its exit code; 1 for a tool that crashed.

    `arguments` are the tool's name and its arguments.
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps([os.getcwd(), *arguments]).encode()], [0, 1, 2])
        return int(server.recv(8) or b"1")


def serve(address: str) -> None:
    """Imports the tools, and runs each request in a forked process until the server is stopped."""
    import pkgutil
    import signal

    for tool in TOOLS:
        pkgutil.resolve_name(tool)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the copies
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            caller, _ = listener.accept()
            message, files, _, _ = socket.recv_fds(caller, 1 << 20, 3)
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for i, file in enumerate(files):
                    os.dup2(file, i)
                folder, tool, *arguments = json.loads(message)
                os.chdir(folder)
                caller.sendall(b"%d" % run(tool, arguments))
                os._exit(0)
            for file in files:
                os.close(file)
            caller.close()


def run(tool: str, arguments: list[str]) -> int:
    """Runs a module as a program; returns its exit code.

    `tool` is the name of the module, and `arguments` are its arguments on the command line.
    """
    import runpy
    import traceback

    sys.argv = [tool, *arguments]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 - they live as long as the process
    sys.modules.pop(tool, None)  # the module is imported again, but not its dependencies
    code: object = 0
    try:
        runpy.run_module(tool, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(call(sys.argv[1], sys.argv[2:]))
