# Every target sets up for itself. Paths are relative, because make cannot quote a folder with spaces in its name.
PYTHON ?= python3
PY := .venv/bin/python
COMPOSE ?= docker compose
# How many repetitions, races, flows and tokens `make prove` plays, as a share of the full size.
SIZE ?= 1
# The printed address opens the first notebook too, for whoever has no browser on this machine.
JUPYTER := $(PY) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb

# A clone that was moved, or whose Python was replaced, is set up anew.
ifneq ($(wildcard .venv/ready),)
ifneq ($(shell $(PY) -I -c "import labkit, pathlib; print(pathlib.Path(labkit.__file__).resolve().parents[2] == pathlib.Path.cwd().resolve())" 2>/dev/null),True)
$(shell rm -f .venv/ready)
endif
endif

.DELETE_ON_ERROR:
.PHONY: help lab demo doctor test conformance prove flaky bench notebooks compose-up compose-down lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

lab: .venv/ready ## open JupyterLab on the first notebook
	@$(JUPYTER) $$([ "$$(id -u)" != 0 ] || echo --allow-root)

demo: .venv/ready ## run the four moves against one requestState
	@$(PY) -m labkit demo

doctor: ## look at Python, the packages and OpenBao, and say how to mend what is missing
	@PYTHONPATH=src $$($(PY) -c "" 2>/dev/null && echo $(PY) || echo $(PYTHON)) -m labkit doctor

test: .venv/ready ## lint, types, tests, and every notebook compared with its committed outputs
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest
	$(PY) -m pytest --nbval notebooks/

conformance: .venv/fastmcp/ready tests/conformance/node_modules/ready ## run the official MCP suite, the TypeScript client and FastMCP
	$(PY) -m pytest --durations=3 tests/conformance

prove: .venv/ready ## the long proofs: mutants, altered tokens, races, crashes, outages and rotations; SIZE=0.1 for fewer
	SIZE=$(SIZE) $(PY) -m pytest tests/prove

flaky: .venv/ready ## compare every notebook with its committed outputs ten times, up to the first that differs
	@for run in 1 2 3 4 5 6 7 8 9 10; do echo "Run $$run of 10"; $(PY) -m pytest --nbval notebooks/ || exit 1; done

bench: .venv/ready ## side-by-side figures, printed as ratios and saved to build/bench.json
	@$(PY) tests/bench

notebooks: .venv/ready ## run every notebook and write its outputs
	@$(PY) tests/execute.py notebooks/*.ipynb

compose-up: .env ## start the official OpenBao in a container, and print how to reach it
	@$(COMPOSE) version >/dev/null 2>&1 || { \
		echo "$(COMPOSE) does not run: install Docker with its compose plugin, or make compose-up COMPOSE=podman-compose"; exit 1; }
	@$(COMPOSE) up --detach
	@for try in $$(seq 60); do $(COMPOSE) exec -T openbao /usr/bin/bao status >/dev/null 2>&1 && exit 0; sleep 0.5; done; \
		echo "OpenBao is not ready after half a minute: look at $(COMPOSE) logs"; exit 1
	@echo "OpenBao is ready. For the notebooks, the demo and the bao command, run these two lines here:"
	@echo
	@. ./.env; echo "export BAO_ADDR=http://127.0.0.1:$${BAO_PORT:-8200}"
	@echo 'export BAO_TOKEN=$$(sed -n s/^BAO_DEV_ROOT_TOKEN_ID=//p .env)'

compose-down: .env ## stop that container and forget what was in it
	@$(COMPOSE) down

lock: .venv/ready ## write both requirements.lock anew
	$(PY) -m uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --upgrade --quiet --output-file requirements.lock
	$(PY) -m uv pip compile tests/conformance/requirements.in --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade --quiet \
		--output-file tests/conformance/requirements.lock

clean: ## remove the environment and every cache
	rm -rf .venv tests/conformance/node_modules .pytest_cache .mypy_cache .ruff_cache notebooks/.ruff_cache .hypothesis dist build out.ipynb
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.env:
	@(umask 077; $(PYTHON) -c 'import secrets; print("BAO_DEV_ROOT_TOKEN_ID=" + secrets.token_urlsafe(24))' > $@)

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is none: name one, as in: make PYTHON=python3.12 lab"; exit 1; }
	@echo "Setting up .venv, once; this takes about half a minute …"
	@$(PYTHON) -m venv --clear .venv
	@sed -n '/^uv==/,/# via/p' requirements.lock > .venv/uv.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock
	@$(PY) -m uv pip install --python $(PY) --compile-bytecode --require-hashes -r requirements.lock
	@$(PY) -m uv pip install --quiet --python $(PY) --no-deps --no-build-isolation -e .
	@# No question about news in front of the first notebook, and no look for updates.
	@$(PY) -m jupyter labextension disable --level=sys_prefix @jupyterlab/apputils-extension:announcements 2>/dev/null
	@touch $@

# Beside the environment and not in it, so that nothing of labkit can come to lean on it.
.venv/fastmcp/ready: tests/conformance/requirements.lock .venv/ready
	@echo "Installing FastMCP …"
	@rm -rf $(@D)
	@$(PY) -m uv pip install --quiet --target $(@D) --require-hashes -r tests/conformance/requirements.lock
	@touch $@

tests/conformance/node_modules/ready: tests/conformance/package.json tests/conformance/package-lock.json
	@command -v npm >/dev/null || { \
		echo "npm is needed, and there is none: install Node.js with npm (apt install npm, brew install node)"; exit 1; }
	@echo "Installing the official suite, the TypeScript client and a Node.js for them …"
	@cd $(@D)/.. && npm ci
	@[ -x $(@D)/.bin/node ] || { echo "package.json has no Node.js 22 for this machine: add the package that fits"; exit 1; }
	@touch $@
