"""What a test looks up and knows to be there."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def there(found: T | None) -> T:
    """It was found."""
    assert found is not None
    return found
