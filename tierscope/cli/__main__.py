"""`python -m tierscope.cli` is the `tierscope` command."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it without a traceback."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to clean up yet
    from tierscope.cli.main import run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
