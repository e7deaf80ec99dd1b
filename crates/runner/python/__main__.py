"""The worker of `engine: python`, which trains one cell of a study with PyTorch, transformers and PEFT.

`expctl run` carries these files and starts them with a Python of yours; docs/pytorch.md says how. By hand:

    python python/worker machine
"""
import sys

from expctl_worker import command

if __name__ == "__main__":
    sys.exit(command.main())
