"""Message classes that protobuf makes of short descriptions.

A field is written `number name type`, with `*` for lists and `=default`. What is not listed is skipped when a
file is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]


def message_class(
    package: str,
    root: str,
    messages: Mapping[str, str],
    enums: Mapping[str, str],
    packed: Collection[str] = (),
) -> Any:
    """The class of a message.

    Args:
        package: Of all these messages.
        root: The message that is asked for.
        messages: Fields by message, with `; ` between them.
        enums: Values by enumeration, `NAME=number` with blanks between them.
        packed: Lists that are written in one piece, `Message.field`.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, values in enums.items():
        # values of an enumeration are named in the scope around it, so each has a message of its own
        kind = file.message_type.add(name=f"{name}Scope").enum_type.add(name=name)
        for item in values.split():
            label, _, number = item.partition("=")
            kind.value.add(name=label, number=int(number))
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields.split("; "):
            field = _add_field(message, text, package, messages, enums)
            if f"{name}.{field.name}" in packed:
                field.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{root}"))


def _add_field(
    message: Any, text: str, package: str, messages: Collection[str], enums: Collection[str]
) -> Any:
    number, name, kind = text.split()
    kinds = descriptor_pb2.FieldDescriptorProto
    word, _, default = kind.partition("=")
    many, word = word.endswith("*"), word.removesuffix("*")
    field = message.field.add(name=name, number=int(number))
    field.label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
    if word in enums:
        field.type, field.type_name = kinds.TYPE_ENUM, f".{package}.{word}Scope.{word}"
    elif word in messages:
        field.type, field.type_name = kinds.TYPE_MESSAGE, f".{package}.{word}"
    else:
        field.type = getattr(kinds, f"TYPE_{word.upper()}")
    if default:
        field.default_value = default
    return field
