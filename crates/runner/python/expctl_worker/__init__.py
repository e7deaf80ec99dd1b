"""Trains one cell with PyTorch. `command` is the command line, `train` the training, and each other module a part of it."""
