"""Questions to a support agent over HTTP: asking gives a handle, and the handle gives the answer."""

import json

from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from retinue.client import SubagentHandle, SubagentLifecycle, SubagentLifecycleError, SubagentState
from support.models import Question

# Connects at the first call, and anew in each process that the web server forks.
lifecycle = SubagentLifecycle(session_id="shop")


class QuestionForm(ModelForm):
    """Checks a customer's question."""

    class Meta:
        model = Question
        fields = ("text",)


@require_POST
def ask(request: HttpRequest) -> JsonResponse:
    """Keeps the question and launches the agent (202); the caller keeps the handle."""
    form = QuestionForm(request.POST)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    launched: list[SubagentHandle] = []
    try:
        with transaction.atomic():
            question = form.save()
            # Before the commit a worker would not see the question; after a rollback there is none.
            transaction.on_commit(lambda: launched.append(launch(question)))
    except SubagentLifecycleError as error:
        return JsonResponse({"errors": str(error)}, status=503)
    return JsonResponse(launched[0].to_dict(), status=202)


@require_POST
def answer(request: HttpRequest) -> JsonResponse:
    """The result of a run that has ended (200), or how it stands (202); 404 for a handle that is not ours."""
    try:
        handle = json.loads(request.body)
    except ValueError:
        return JsonResponse({"errors": "the body must be a handle, as JSON"}, status=400)
    result = lifecycle.result(handle)
    if result.ready:
        return JsonResponse(result.to_dict())
    status = lifecycle.status(handle)
    if status.state is SubagentState.UNKNOWN:
        return JsonResponse({"errors": "no such question"}, status=404)
    return JsonResponse(status.to_dict(), status=202)


def launch(question: Question) -> SubagentHandle:
    """Launches the agent for a question; the same run if it was launched before."""
    return lifecycle.launch(
        agent="support",
        goal=question.text,
        correlation_id=f"question-{question.pk}",
        on_duplicate="return",
    )
