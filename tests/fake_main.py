"""The command line with the fake engines registered: `python fake_main.py solve …`."""

import fake_engines
from exactile.cli import main
from exactile.solver.engines import ENGINES

if __name__ == "__main__":
    ENGINES.update(fake_engines.ENGINES)
    main()
