"""The one table of roles: what is made from it agrees with it."""

import dataclasses

import pytest

from understudy.cli.main import app
from understudy.core.roles import MODEL_ROLES, ROLES, Models, flag_of, port_of
from understudy.methods.base import Context
from understudy.run.config import run_options


def test_every_role_that_is_no_dataset_is_a_model_of_the_context():
    assert [role for role, one in ROLES.items() if one.port != "Source"] == sorted(
        MODEL_ROLES, key=list(ROLES).index
    )
    fields = {field.name for field in dataclasses.fields(Context)}
    assert set(MODEL_ROLES) <= fields
    declared = {field.name: field.type for field in dataclasses.fields(Models)}
    assert declared == {role: f"{port_of(role).__name__} | None" for role in MODEL_ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_a_port_and_an_option_of_its_own(role):
    assert port_of(role).__name__ == ROLES[role].port.rpartition(".")[2]
    assert role in run_options()
    for command in ("synthesize", "audit"):
        assert flag_of(role) in flags_of(command)


def flags_of(command: str) -> set[str]:
    import typer

    found = typer.main.get_command(app).commands[command]
    return {flag for one in found.params for flag in one.opts}
