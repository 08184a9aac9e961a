"""`python -m exactile`: the command line."""

from exactile.cli import main

if __name__ == "__main__":
    main()
