"""`python -m retinue.cli`: the command without its script, with the working directory on the import path."""

from retinue.cli import main

if __name__ == "__main__":
    main()
