"""The command line that a run gives its workers, and how a cell ends (docs/worker.md)."""
import argparse, ctypes, os, pathlib, signal, sys, threading, time, traceback

from . import machine, ranks, record
from .inputs import Inputs
from .protocol import say, write_whole

OUT_OF_MEMORY = 42
PR_SET_PDEATHSIG = 1


def arguments():
    parser = argparse.ArgumentParser(prog="worker")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("machine", help="print what this machine offers")
    cell = commands.add_parser("cell", help="train the cell of a folder")
    cell.add_argument("folder", type=pathlib.Path)
    cell.add_argument("--base-dir", type=pathlib.Path, default=pathlib.Path("."))
    cell.add_argument("--attempt", type=int, default=1)
    cell.add_argument("--parent", type=int)
    cell.add_argument("--save-model", type=pathlib.Path)
    cell.add_argument("--adapter-config-sha256")
    cell.add_argument("--trial", action="store_true")
    return parser.parse_args()


def main():
    given = arguments()
    if given.command == "machine":
        machine.print_offer()
        return 0
    die_with(given.parent)
    started, clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    found = machine.found()
    say("started", **found)
    say("loading")
    inputs = Inputs.ask(given)
    for text in inputs.remarks:
        say("remark", text=text)
    # PyTorch reads these as it is imported.
    machine.set_threads(inputs.cell)
    ranks.start_others(inputs, given)
    from . import oom, train

    try:
        outcome = {"status": "ok", "measured": train.run(inputs, given)}
    except Exception as error:
        traceback.print_exc()
        ranks.end_as_another()
        request = oom.request(error)
        if request:
            write_whole(given.folder / "oom.json", request)
            return OUT_OF_MEMORY
        outcome = {"status": "failed", "reason": reason(error)}
    if ranks.of_process():
        return 0 if outcome["status"] == "ok" else 1
    write_whole(given.folder / "record.json", {
        "cell_id": given.folder.name, "attempt": given.attempt, "started_at": started,
        "wall_seconds": time.monotonic() - clock, "provenance": record.provenance(inputs, found), **outcome,
    })
    say("done")
    return 0 if outcome["status"] == "ok" else 1


def reason(error):
    """The first words of an error: what libraries write after them is in the log."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:500]}" if words else type(error).__name__


def die_with(parent):
    """Has the kernel end this process when its run ends."""
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent not in ancestors():
        sys.exit("the run that started this cell has ended")
    if os.getppid() != parent:
        # uv stands between, and outlives the run.
        threading.Thread(target=watch, args=[parent], daemon=True).start()


def ancestors():
    """The processes above this one."""
    process, found = os.getppid(), []
    while process > 1:
        found.append(process)
        # The name in brackets may hold anything.
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def watch(parent):
    while os.path.exists(f"/proc/{parent}"):
        time.sleep(0.5)
    os._exit(1)
