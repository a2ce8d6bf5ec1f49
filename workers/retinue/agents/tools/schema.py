"""The JSON schema of a function's parameters, and the pydantic model that checks a call against it."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined

from retinue.contract.errors import DeclarationError

from .docstring import read_docstring
from .schema_tidy import tidy
from .tool_context import ToolContext


class _ParameterSchema(GenerateJsonSchema):
    # A default that JSON cannot say (a sentinel, an open file) is simply not shown to the model.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """What a function takes: as JSON schema for the model, as pydantic model for checking.

    Args:
        names: the parameters that the model fills, in order.
        required: those without a default.
        signature: the function's own.
        context: the parameter that gets the `ToolContext`. None = none does.
        description: the docstring without its sections; "" when there is none.
        parameters: JSON schema of an object; further properties are refused.
        model: fields ``p0``, ``p1`` ... with the names as aliases, so that no parameter name can shadow
            a method of pydantic's.
    """

    names: tuple[str, ...]
    required: frozenset[str]
    signature: inspect.Signature
    context: str | None
    description: str
    parameters: Mapping[str, JsonValue]
    model: type[BaseModel]

    @classmethod
    def of(cls, function: Callable[..., object], *, tool: str) -> ArgumentSchema:
        """Read a function's signature, type hints and docstring.

        Raises:
            DeclarationError: a parameter cannot be filled by a model; names the tool and the parameter.
        """
        signature = inspect.signature(function)
        context: str | None = None
        hints: dict[str, Any] = {}
        for name, parameter in signature.parameters.items():
            hint = _hint(function, parameter, tool)
            if _is_context(name, hint):
                if context is not None:
                    raise _fault(tool, name, "a second ToolContext parameter", "keep one of them")
                context = name
            else:
                _check_parameter(parameter, tool)
                hints[name] = Any if hint is inspect.Parameter.empty else hint
        description, texts = read_docstring(function, hints)
        model = _model(signature, hints, texts, tool)
        return cls(
            names=tuple(hints),
            required=frozenset(
                n for n in hints if signature.parameters[n].default is inspect.Parameter.empty
            ),
            signature=signature,
            context=context,
            description=description,
            parameters=_json_schema(model, tool),
            model=model,
        )


def _hint(function: Callable[..., object], parameter: inspect.Parameter, tool: str) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.annotation
    # Alone, so that a return type that exists for type checkers only does no harm.
    holder = types.SimpleNamespace(
        __annotations__={parameter.name: parameter.annotation},
        __globals__=getattr(inspect.unwrap(function), "__globals__", {}),
    )
    try:
        try:
            return typing.get_type_hints(holder, include_extras=True)[parameter.name]
        except NameError:
            # ToolContext is often imported under TYPE_CHECKING only.
            names = {"ToolContext": ToolContext}
            return typing.get_type_hints(holder, localns=names, include_extras=True)[parameter.name]
    except Exception as error:
        raise _fault(
            tool,
            parameter.name,
            f"its type {parameter.annotation!r} cannot be read ({error})",
            "import the type at the module's top level",
        ) from error


def _is_context(name: str, hint: Any) -> bool:
    if hint is inspect.Parameter.empty:
        return name == "ctx"
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (typing.Union, types.UnionType):
        return ToolContext in get_args(hint)
    return hint is ToolContext


def _check_parameter(parameter: inspect.Parameter, tool: str) -> None:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise _fault(
            tool,
            parameter.name,
            "a model cannot fill * and ** parameters",
            "name each parameter, with its type",
        )
    if parameter.name in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
        raise _fault(tool, parameter.name, "the tool is a method without its object", "use a plain function")
    if isinstance(parameter.default, FieldInfo):
        raise _fault(
            tool,
            parameter.name,
            "Field(...) as default value would be passed to the function itself",
            f"write {parameter.name}: Annotated[<type>, Field(...)]",
        )


def _model(
    signature: inspect.Signature, hints: Mapping[str, Any], texts: Mapping[str, str], tool: str
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, (name, hint) in enumerate(hints.items()):
        default = signature.parameters[name].default
        options: dict[str, Any] = {"alias": name}
        if name in texts and not _described(hint):
            options["description"] = texts[name]
        value = PydanticUndefined if default is inspect.Parameter.empty else default
        fields[f"p{number}"] = (hint, Field(value, **options))
    # Numbers become text because models write identifiers as numbers.
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, protected_namespaces=())
    try:
        return create_model("Arguments", __config__=config, **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _schema_fault(tool, error) from error


def _described(hint: Any) -> bool:
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(isinstance(item, FieldInfo) and item.description for item in metadata)


def _json_schema(model: type[BaseModel], tool: str) -> dict[str, JsonValue]:
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=_ParameterSchema)
    except PydanticUserError as error:
        raise _schema_fault(tool, error) from error
    result = tidy(schema)
    result.setdefault("properties", {})
    return result


def _schema_fault(tool: str, error: Exception) -> DeclarationError:
    return DeclarationError(
        f"no JSON schema for the parameters of tool {tool!r}: {str(error).splitlines()[0].rstrip('.')}",
        field="parameters",
        mend="use JSON types, dataclasses, TypedDicts, enums or pydantic models",
    )


def _fault(tool: str, parameter: str, message: str, mend: str) -> DeclarationError:
    return DeclarationError(f"tool {tool!r}, parameter {parameter!r}: {message}", field=parameter, mend=mend)
