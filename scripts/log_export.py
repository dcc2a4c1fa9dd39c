#!/usr/bin/env python3
"""Exports a run's log.jsonl to TensorBoard or Weights & Biases, afterwards or while it grows.

    scripts/log_export.py RUN/log.jsonl --tensorboard DIR [--follow]
    scripts/log_export.py RUN/log.jsonl --wandb PROJECT [--name NAME] [--follow]

Needs the package of the target: tensorboardX (or torch with tensorboard), or wandb.
"""

import argparse
import json
import sys
import time

POLL_S = 1.0


def complete_lines(path, follow):
    """Yields each finished line of the file; with follow, waits for more until interrupted."""
    with open(path, encoding="utf-8") as file:
        pending = ""
        while True:
            chunk = file.readline()
            pending += chunk
            if pending.endswith("\n"):
                yield pending
                pending = ""
            elif not chunk:
                if not follow:
                    return
                time.sleep(POLL_S)


def numbers(name, value):
    """Yields (name, number) of a value, and of what is in it: nvme_by_device/0/1."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(f"{name}/{key}", part)
    elif value is not None:
        yield name, value


def records(path, follow):
    """Yields (step, {name: number}) of each line; absent values are left out."""
    for number, line in enumerate(complete_lines(path, follow), start=1):
        try:
            record = json.loads(line)
            step = record.pop("step")
        except (ValueError, KeyError, AttributeError):
            sys.exit(f"log_export: {path}:{number}: not a line of a Strata log")
        yield step, {name: number for key, value in record.items()
                     for name, number in numbers(key, value)}


def summary_writer(folder):
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            sys.exit("log_export: --tensorboard needs a package: pip install tensorboardX")
    return SummaryWriter(folder)


def export_to_tensorboard(folder, steps):
    writer = summary_writer(folder)
    try:
        for step, values in steps:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
            writer.flush()
    finally:
        writer.close()


def export_to_wandb(project, name, steps):
    try:
        import wandb
    except ImportError:
        sys.exit("log_export: --wandb needs a package: pip install wandb")
    run = wandb.init(project=project, name=name)
    try:
        for step, values in steps:
            run.log(values, step=step)
    finally:
        run.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("log", help="the JSON lines that strata train wrote")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--tensorboard", metavar="DIR", help="write TensorBoard events here")
    target.add_argument("--wandb", metavar="PROJECT", help="log to this Weights & Biases project")
    parser.add_argument("--name", help="name of the Weights & Biases run")
    parser.add_argument("--follow", action="store_true", help="go on as the log grows, until Ctrl-C")
    arguments = parser.parse_args()
    steps = records(arguments.log, arguments.follow)
    try:
        if arguments.tensorboard:
            export_to_tensorboard(arguments.tensorboard, steps)
        else:
            export_to_wandb(arguments.wandb, arguments.name, steps)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"log_export: {error}")


if __name__ == "__main__":
    main()
