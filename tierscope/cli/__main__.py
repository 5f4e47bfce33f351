"""`python -m tierscope.cli` is the `tierscope` command."""

import atexit
import gc
import signal

NEW_OBJECTS = 100_000
"""Net new objects between two looks for garbage. Imports alone make as many, and throw away next to none."""


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it without a traceback."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)  # an interpreter that ends looks at every object once more, for nothing
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to clean up yet
    from tierscope.cli.main import run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
