"""python -m feather_ref: the command line, see `feather_ref.cli`."""

from feather_ref.cli import main

if __name__ == "__main__":
    main()
