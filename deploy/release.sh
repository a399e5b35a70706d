#!/usr/bin/env bash
# Builds the wheel and the source archive of HEAD into dist/, and tries the wheel as a user has it: in
# an empty environment with another version of requests, in a directory outside the clone.
#   make release                              PYTHON=python3.13 for another Python
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet . "$work/clone"
.venv-lock/bin/python -m build --outdir "$work/dist" "$work/clone"
.venv-lock/bin/twine check --strict "$work"/dist/*

# The package, the script that fetches seeds and the guides, and nothing else.
unzip -Z1 "$work"/dist/*.whl | grep -v '\.dist-info/' | sort >"$work/packed"
{
  git -C "$work/clone" ls-files webcrawl
  echo webcrawl_seeds/refresh.py
  git -C "$work/clone" ls-files 'docs/howto/*.md' | sed 's#docs/howto#webcrawl_docs#'
} | sort | diff - "$work/packed"

"$python" -m venv "$work/environment"
"$work/environment/bin/pip" install --quiet requests==2.33.1 "$work"/dist/*.whl
mkdir "$work/empty" && cd "$work/empty"
"$work/environment/bin/webcrawl" simweb --hosts 20 --seeds-file seeds.txt -- \
  "$work/environment/bin/webcrawl" crawl web -a 'seeds={seeds}' -s DNS_SERVERS={dns} \
  -s ALLOW_PRIVATE_ADDRESSES=1 -s POLITENESS_MIN_DELAY=0.05 -s POLITENESS_MAX_DELAY=1 \
  -s POLITENESS_BACKOFF_SECS=0.5 -s POLITENESS_BACKOFF_MAX_SECS=1 -s DNS_QUERY_TIMEOUT_SECS=0.3 \
  -s DOWNLOAD_TIMEOUT=5 -s REPUTATION_ROUNDS=0 2>&1 | tee log
grep -q '=== crawl summary ===' log
echo 1,example.org >list.csv
"$work/environment/bin/webcrawl-seeds" --from list.csv --count 1 | grep -q '^top1m.csv: '
"$work/environment/bin/python" -c 'from importlib.metadata import version; assert version("requests") == "2.33.1"'

cd - >/dev/null
mkdir -p dist && cp "$work"/dist/* dist/
echo "dist/: $(cd dist && echo *)"
