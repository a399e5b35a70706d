from webcrawl.pipelines.module import ProcessingModule


class Titles(ProcessingModule):
    content_types = ("text/html",)

    def open(self):
        self.file = open(self.jobdir / "titles.txt", "a")

    def process(self, page):
        print(page.url, page.css("title::text").get(), sep="\t", file=self.file)

    def sync(self):  # before each checkpoint
        self.file.flush()

    def close(self):
        self.file.close()
