"""Command lines in documents and messages: whether the commands and settings in them exist."""

import importlib

from scrapy.cmdline import ScrapyArgumentParser
from scrapy.settings import default_settings
from scrapy.utils.project import get_project_settings

import webcrawl.settings as own_settings


def parser_of(name):
    """The parser of the command *name* of Scrapy."""
    try:
        module = importlib.import_module(f"webcrawl.commands.{name}")
    except ModuleNotFoundError:
        module = importlib.import_module(f"scrapy.commands.{name}")
    command = module.Command()
    command.settings = get_project_settings()
    command.settings.setdict(command.default_settings, priority="command")
    parser = ScrapyArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    return parser


def is_setting(name):
    return name in vars(own_settings) | vars(default_settings) | own_settings.web_spider
