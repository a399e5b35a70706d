cd /work/w/pi; rm -rf .release; mkdir .release; git archive "$(tail -n 1 docs/releases.txt | cut -d' ' -f2)" | tar -x -C .release; make -C .release PYTHON=/root/.pyenv/versions/3.11.7/bin/python .venv/.run >/tmp/release.log 2>&1
OPENBLAS_NUM_THREADS=1 .venv/bin/python -m pytest -q -m long -p no:cacheprovider tests/nightly/test_page_parts.py
