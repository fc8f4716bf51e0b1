"""Small immutable values for modules that the verbs import before they do anything.

Making a class with `dataclasses` takes about half a millisecond, and the registry lock has forty of them.
"""

from typing import Any, ClassVar, Never, dataclass_transform


@dataclass_transform(frozen_default=True)
class Value:
    """A subclass annotates its fields, which may have defaults, as a frozen dataclass does; a type checker
    takes it for one. Two values are equal when their class and their fields are. Not for a hierarchy: only
    the annotations of the class itself count.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.__match_args__ = tuple(cls.__annotations__)  # type: ignore[misc]  # set once, as `dataclass` does

    def __init__(self, *args: Any, **named: Any) -> None:
        self.__dict__.update(zip(self.__match_args__, args, strict=False), **named)
        if missing := [name for name in self.__match_args__ if not hasattr(self, name)]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{type(self).__name__} is not changed once it is made")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._fields(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)
