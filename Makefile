# One line per recipe. Everything runs in .venv, which is made when it is missing.
PYTHON ?= python3
PEER_PYTHON ?= python3.12
BIN := .venv/bin

.PHONY: run test slow lint types bench ladder cascades peers structures wheel clean

run: $(BIN)/exactile            ## solve a real attention layer and show its best dataflow
	$(BIN)/exactile solve gpt3-6.7b-attention

test: $(BIN)/pytest             ## the fast tests
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

slow: $(BIN)/pytest             ## the long checks
	$(BIN)/pytest -m slow -n 2

lint: $(BIN)/ruff               ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(BIN)/exactile          ## the speed table of the README
	$(BIN)/python bench/speed.py

ladder: $(BIN)/exactile         ## every engine on problems of growing size
	mkdir -p out && $(BIN)/python bench/ladder.py --report out/ladder.md --json out/ladder.json

cascades: $(BIN)/exactile       ## whole transformer blocks and their parts, proved by one model
	$(BIN)/python bench/cascades.py

peers: $(BIN)/exactile .venv-accelforge/ready    ## side by side with AccelForge, see docs/peers.md
	$(BIN)/python bench/peers/accelforge.py --engines mmee,cpsat --markdown docs/peers.md

wheel: $(BIN)/pytest            ## build the wheel into dist/
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist

clean:                          ## remove everything that was made here
	rm -rf .venv .venv-accelforge build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/exactile: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	touch $@

$(BIN)/pytest $(BIN)/ruff &: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable ".[dev]"
	touch $(BIN)/pytest $(BIN)/ruff $(BIN)/exactile

structures: $(BIN)/exactile    ## the structures that ship with the package
	$(BIN)/python bench/ship_structures.py

.venv-accelforge/ready:
	$(PEER_PYTHON) -m venv .venv-accelforge
	.venv-accelforge/bin/pip install -qq --disable-pip-version-check accelforge==1.0.467
	touch $@
