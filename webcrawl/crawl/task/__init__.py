"""What leases are for: pages, robots.txt files, side downloads, and subresources of pages."""
