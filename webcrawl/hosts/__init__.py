"""Everything known and decided per host: records, robots.txt, politeness, budgets."""
