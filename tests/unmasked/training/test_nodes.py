"""One launch on several machines: here two "machines" on one, each with its own torchrun."""

import os
import socket
import subprocess
import sys

from test_processes import ALONE, SCRIPT, check_trainings


def test_two_machines_give_the_losses_and_weights_of_one_process(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    command += ["--nproc-per-node", "1", "--rdzv-id", "7", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", f"localhost:{port}", SCRIPT, "trainings", tmp_path]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, **ALONE}
    nodes = [subprocess.Popen(command, env=environment, **options) for _ in range(2)]
    try:
        for node in nodes:
            said, _ = node.communicate(timeout=120)
            assert node.returncode == 0, said
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    check_trainings(tmp_path)
