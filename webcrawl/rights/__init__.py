"""What a crawl is for, and what site owners allow for that purpose."""
