"""Style sheet of the report: light or dark as the reader's system is, from 320 pixels on."""

from __future__ import annotations

from typing import Final

_LIGHT: Final = (
    "color-scheme: light; --ground: #eef0f3; --panel: #fdfdfe; --ink: #1c2430; --muted: #566071; "
    "--grid: #d5dae1; --first: #2a67ab; --second: #b4540a; --third: #1d7a46; --fourth: #7b3fb0;"
)
_DARK: Final = (
    "color-scheme: dark; --ground: #0f1319; --panel: #171d26; --ink: #e3e8ef; --muted: #9ba7b8; "
    "--grid: #333d4b; --first: #6aa9ee; --second: #e89a54; --third: #5fc08a; --fourth: #c09af0;"
)

STYLE: Final = f"""
:root {{ {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box; }}
body {{
  margin: 0 auto; max-width: 88rem; padding: 1.5rem clamp(0.75rem, 3vw, 2rem) 3rem;
  background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
}}
h1 {{ margin: 0; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }}
h2 {{ margin: 2.25rem 0 0.75rem; font-size: 1.2rem; }}
h3 {{ margin: 0; font-size: 1rem; }}
header p {{ margin: 0.35rem 0 0; color: var(--muted); }}
.summary {{
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1px;
  margin: 1.25rem 0 0; padding: 0; overflow: hidden;
  background: var(--grid); border: 1px solid var(--grid); border-radius: 8px;
}}
.summary div {{ padding: 0.7rem 0.9rem; background: var(--panel); }}
.summary dt {{ color: var(--muted); font-size: 0.85rem; }}
.summary dd {{ margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }}
.figures {{
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr));
  gap: 1rem; align-items: start;
}}
figure {{
  margin: 0; min-width: 0; padding: 1rem; background: var(--panel);
  border: 1px solid var(--grid); border-radius: 8px;
}}
figure p {{ margin: 0.25rem 0 0.75rem; color: var(--muted); font-size: 0.9rem; }}
figure p:last-child {{ margin-bottom: 0; }}
svg {{ display: block; width: 100%; height: auto; }}
svg text {{ font-family: inherit; }}
details {{ margin-top: 0.75rem; }}
summary {{ width: fit-content; cursor: pointer; color: var(--first); font-size: 0.85rem; }}
table {{ width: 100%; margin-top: 0.5rem; border-collapse: collapse; font-size: 0.85rem; }}
th, td {{ padding: 0.3rem 0.4rem; text-align: left; vertical-align: top; }}
th {{ color: var(--muted); font-weight: 600; border-bottom: 1px solid var(--grid); }}
td {{ border-bottom: 1px solid var(--grid); font-variant-numeric: tabular-nums; }}
tr:last-child td {{ border-bottom: 0; }}
td:first-child {{ overflow-wrap: anywhere; min-width: 4.5rem; width: 100%; }}
.number {{ text-align: right; }}
td.number {{ white-space: nowrap; }}
@media (max-width: 30rem) {{
  figure {{ padding: 0.8rem; }}
  table {{ font-size: 0.75rem; }}
  th, td {{ padding: 0.25rem 0.2rem; }}
}}
"""
