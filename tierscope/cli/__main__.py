"""`python -m tierscope.cli` is the `tierscope` command."""

from tierscope.cli.main import run

if __name__ == "__main__":
    run()
