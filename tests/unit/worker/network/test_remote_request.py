from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from retinue.agents.agentspec.remote_spec import RemoteSpec
from retinue.worker.network.remote_request import RemoteRequest, RemoteRequestError, fill_request

URL = "https://api.example.com/orders/{{id}}"


def filled(
    secrets: dict[str, SecretStr] | None = None, *, arguments: dict[str, object], **spec: object
) -> RemoteRequest:
    values = {"name": "t", "method": "GET", "url": URL, **spec}
    return fill_request(RemoteSpec.model_validate(values), arguments, secrets or {})  # pyright: ignore


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("42", "/orders/42"),
        (42, "/orders/42"),
        ("a b", "/orders/a%20b"),
        ("a/b?c#d", "/orders/a%2Fb%3Fc%23d"),
        ("@evil.example", "/orders/%40evil.example"),
        ("a%2Fb", "/orders/a%252Fb"),
        ("héllo", "/orders/h%C3%A9llo"),
    ],
)
def test_an_argument_stays_one_segment_of_the_path(value: object, path: str) -> None:
    url = filled(arguments={"id": value}).url
    assert url.raw_path.decode() == path
    assert url.host == "api.example.com"


@pytest.mark.parametrize("value", ["..", ".", "../customers", "..\\x", "%2e%2e", "a/../b", "%2e%2e%2fx"])
def test_an_argument_cannot_lead_upwards(value: str) -> None:
    with pytest.raises(RemoteRequestError, match="upwards"):
        filled(arguments={"id": value})


def test_arguments_in_a_query_are_values_and_no_more() -> None:
    request = filled(
        url="https://h.example/s?q={{q}}",
        query={"tag": "{{tags}}", "{{name}}": "x", "n": 3, "none": "{{gone}}", "many": ["a", "{{q}}"]},
        arguments={"q": "a&b=c", "tags": "t#1", "name": "k&x", "gone": None},
    )
    assert request.url.query == b"q=a%26b%3Dc&tag=t%231&k%26x=x&n=3&many=a&many=a%26b%3Dc"


def test_a_body_is_json_with_every_text_filled() -> None:
    request = filled(
        method="POST",
        url="https://h.example/",
        data={"{{k}}": ["{{v}}", 1, {"deep": "<{{v}}>"}], "null": "{{none}}"},
        arguments={"k": "key", "v": 'a"b', "none": None},
    )
    assert json.loads(request.content or b"") == {"key": ['a"b', 1, {"deep": '<a"b>'}], "null": None}
    assert request.headers == {"Content-Type": "application/json"}


def test_a_form_is_encoded_as_one_and_a_text_goes_as_it_is() -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    request = filled(url="https://h.example/", data={"a": "{{v}}"}, headers=form, arguments={"v": "x&b=1"})
    assert request.content == b"a=x%26b%3D1"
    assert filled(url="https://h.example/", data="<{{v}}>", arguments={"v": "x"}).content == b"<x>"
    assert filled(url="https://h.example/", data={}, arguments={}).content is None


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "é"])
def test_a_header_s_value_stays_on_its_line(value: str) -> None:
    with pytest.raises(RemoteRequestError, match="one line"):
        filled(headers={"X-Note": "{{v}}"}, arguments={"v": value, "id": 1})


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "bad name", ""])
def test_headers_that_say_where_a_message_ends_or_goes_are_refused(name: str) -> None:
    with pytest.raises(RemoteRequestError, match="no header"):
        filled(headers={"{{n}}": "x"}, arguments={"n": name, "id": 1})


def test_a_credential_of_the_settings_wins_over_an_argument() -> None:
    secrets = {"Authorization": SecretStr("Bearer s3cret")}
    request = filled(secrets, headers={"authorization": "{{v}}"}, arguments={"v": "mine", "id": 1})
    assert request.headers == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(request)


@pytest.mark.parametrize("url", ["{{url}}", "https://{{host}}/x", "https://api.{{host}}:80/x", "{{s}}://h/x"])
def test_a_host_that_depends_on_an_argument_needs_an_allow_list(url: str) -> None:
    with pytest.raises(RemoteRequestError, match="url_allow_list"):
        filled(url=url, arguments={"url": "https://x.example", "host": "x.example", "s": "https"})


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("https://api.example.com/orders/1", True),
        ("https://api.example.com:443/orders/1", True),
        ("HTTPS://API.example.com/orders/1", True),
        ("https://api.example.com/customers/1", False),
        ("http://api.example.com/orders/1", False),
        ("https://api.example.com:8443/orders/1", False),
        ("https://api.example.com.evil.example/orders/", False),
        ("https://api.example.com@evil.example/orders/", False),
        ("https://evil.example/?https://api.example.com/orders/", False),
        ("https://api.example.com/orders/../customers/", False),
        ("https://api.example.com/orders/%2e%2e/customers/", False),
        ("https://evil.example\\@api.example.com/orders/", False),
        ("file:///etc/passwd", False),
    ],
)
def test_the_allow_list_holds_for_the_url_that_is_really_used(value: str, allowed: bool) -> None:
    def fill() -> RemoteRequest:
        return filled(
            url="{{url}}", allow_list=("https://api.example.com/orders/",), arguments={"url": value}
        )

    if allowed:
        assert fill().url.host == "api.example.com"
    else:
        with pytest.raises(RemoteRequestError):
            fill()


def test_a_url_that_is_none_names_the_setting() -> None:
    with pytest.raises(RemoteRequestError, match=r'remote_tools\.tools\."t"'):
        filled(url="http://127.0.0.1:HOST_PORT/x", arguments={})


def test_a_method_may_be_an_argument_but_must_be_one() -> None:
    assert filled(method="{{m}}", arguments={"m": "delete", "id": 1}).method == "DELETE"
    with pytest.raises(RemoteRequestError, match="no HTTP method"):
        filled(method="{{m}}", arguments={"m": "GET / HTTP/1.1\r\nX: ", "id": 1})
