"""Everything known and decided per host: records, robots.txt, rules, politeness, budgets."""
