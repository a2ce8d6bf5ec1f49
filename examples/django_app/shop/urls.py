"""Routes of the example project."""

from django.urls import path
from support import views

urlpatterns = [path("questions", views.ask), path("answers", views.answer)]
