"""Pages as Scrapy's feed exports, ``scrapy parse`` and other users of ``ItemAdapter`` see them.

It stands apart from items.py because itemadapter imports Scrapy.
"""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from itemadapter import ItemAdapter
from itemadapter.adapter import AdapterInterface

from webcrawl.items import Page, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELDS: Final = {one.name: one.metadata for one in fields(Page) if one.init} | {
    "text": MappingProxyType({"serializer": printable})
}
_TEXT_AND_NUMBERS: Final = [
    one.name for one in fields(Page) if one.type in {"str", "int", "float", "bool", "Truncation"}
]


class PageAdapter(AdapterInterface):
    """``ItemAdapter`` of a Page: lists text and numbers, has all other fields by their names."""

    @classmethod
    def is_item_class(cls, item_class: type) -> bool:
        """Whether it is Page, or made of it."""
        return issubclass(item_class, Page)

    def get_field_meta(self, field_name: str) -> MappingProxyType[str, Any]:
        """How a feed export writes the field."""
        return _FIELDS[field_name]

    def __getitem__(self, field_name: str) -> Any:
        if field_name not in _FIELDS:
            raise KeyError(field_name)
        return getattr(self.item, field_name)

    def __setitem__(self, field_name: str, value: Any) -> None:
        setattr(self.item, field_name, value)

    def __delitem__(self, field_name: str) -> None:
        raise KeyError(f"{field_name} is a field of every Page")

    def __iter__(self) -> Iterator[str]:
        return iter(_TEXT_AND_NUMBERS)

    def __len__(self) -> int:
        return len(_TEXT_AND_NUMBERS)


# Before the one for all dataclasses.
ItemAdapter.ADAPTER_CLASSES.appendleft(PageAdapter)  # type: ignore[attr-defined]  # a deque
