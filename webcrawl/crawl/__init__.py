"""One running process of a crawl: joins the parts to Scrapy's engine."""
