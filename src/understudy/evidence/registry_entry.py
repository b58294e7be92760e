"""An entry of OpenDP's Differential Privacy Deployments Registry (registry.opendp.org).

The fields are those of ``schemas/deployments-schema.yaml`` in
github.com/opendp/deployments-registry-data at commit 057e5d81cf60 (Ghazi, Nanayakkara and Vadhan's
schema of three tiers). Every text is Markdown there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import yaml

from understudy.core.errors import ConfigError
from understudy.evidence.owner_facts import CURATOR_TYPES, SECTORS, SLOT, OwnerFacts
from understudy.report import RunRecord, privacy_json
from understudy.report.statement import NOT_COVERED, in_words_of

_STATUS = ("Converted", "Draft", "Pending", "Changes Required", "Approved")
_PRODUCTS = ("Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
             "Interactive API", "SQL queries")  # fmt: skip
_VARIANTS = ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")

REGISTRY_FIELDS: Mapping[str, Any] = {
    "url_slug": str,
    "deployment": {
        "basic": {
            "name": str, "data_curators": list, "description": str, "intended_use": str,
            "data_product_type": _PRODUCTS, "data_product_region": str,
            "data_product_sector?": SECTORS, "publication_date": date,
        },
        "dp_variant?": {"variant_name?": _VARIANTS, "data_domain?": str,
                        "unprotected_quantities?": str},
        "privacy_loss?": {
            "privacy_unit?": str, "privacy_unit_details?": str, "number_of_privacy_units?": int,
            "privacy_parameters?": {"epsilon?": float, "delta?": float, "rho?": float},
            "privacy_parameters_details?": str,
        },
        "deployment_model?": {
            "model_name?": ("Local", "Central", "Shuffle", "Federated", "Varies"),
            "model_name_details?": str, "trust_assumptions?": str, "actors?": str,
            "release_type?": ("One release", "Many releases"), "release_type_details?": str,
            "data_source_type?": ("Static", "Dynamic"), "data_source_type_details?": str,
            "access_type?": ("Interactive", "Non-interactive"), "access_type_details?": str,
        },
        "implementation?": {
            "preprocessing_and_hyperparameter_tuning?": str, "mechanisms?": str,
            "composition?": str, "post_processing?": str, "justification?": str, "utility?": str,
            "additional_information?": str,
        },
        "administrative": {"evidence_sources?": dict, "status": _STATUS, "registry_authors": list,
                           "tier": (1, 2, 3)},
    },
}  # fmt: skip
"""The schema's fields: a type, the values of an enumeration, or fields; ``?`` may be missing."""


def registry_entry(record: RunRecord, facts: OwnerFacts) -> dict[str, Any]:
    """The entry of a release under differential privacy; slots where the owner has said nothing.

    The number of privacy units is left out: where a unit may be added or removed, it is private.

    Raises:
        ConfigError: The release has no differential privacy, which the registry is of.
    """
    if record.guarantee != "differential privacy":
        raise ConfigError("the registry is of deployments of differential privacy: there is none")
    statement, receipt = privacy_json(record), record.receipt
    inferred = ", ".join(record.conditional_on) or "nothing"
    declared = [one.name for one in record.premises if one.origin == "declared"]
    hosts = [f"{host}, which was sent private images" for host in record.disclosed_to]
    actors = ["The owner of the images", *hosts, f"recipients: {facts.recipients}"]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{record.title} {record.method} {record.date}".lower())
    return {
        "url_slug": slug.strip("-"),
        "deployment": {
            "basic": _basic(record, facts),
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": "Every dataset of records with the declared classes and shape.",
                "unprotected_quantities": f"Inferred from private records: {inferred}. "
                f"Declared to be public: {', '.join(declared) or 'nothing'}.",
            },
            "privacy_loss": {
                "privacy_unit": record.unit,
                "privacy_unit_details": record.neighbours,
                "privacy_parameters": {"epsilon": receipt.epsilon, "delta": receipt.delta},
                "privacy_parameters_details": f"{statement['mechanism']['accounting']}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": " ".join(statement["assumptions"]),
                "actors": "; ".join(actors),
                "release_type": "One release",
                "release_type_details": in_words_of(record, NOT_COVERED[0]),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": _implementation(record, statement["mechanism"], facts),
            "administrative": {"status": "Draft", "registry_authors": [facts.author], "tier": 3},
        },
    }


def _basic(record: RunRecord, facts: OwnerFacts) -> dict[str, Any]:
    """Tier 1; the sector may be left out, the rest may not."""
    sector = {} if facts.sector == SLOT else {"data_product_sector": facts.sector}
    curator = {"data_curator_name": facts.curator, "data_curator_type": facts.curator_type}
    return {
        "name": record.title,
        "data_curators": [curator],
        "description": f"{record.count:,} synthetic {record.samples} of "
        f"{len(record.classes) or 1} classes, made by {record.method}: {record.how}",
        "intended_use": facts.intended_use,
        "data_product_type": "Synthetic data",
        "data_product_region": facts.region,
        **sector,
        "publication_date": record.date,
    }


def _implementation(
    record: RunRecord, mechanism: Mapping[str, str], facts: OwnerFacts
) -> dict[str, str]:
    """Tier 3."""
    utility = "Not measured under the guarantee."
    if record.quality is not None:
        accuracy = record.quality.balanced_accuracy[0]
        utility = f"Measured under the guarantee: balanced accuracy {accuracy:.3f}."
    return {
        "preprocessing_and_hyperparameter_tuning": ASSUMED_OPTIONS,
        "mechanisms": f"{mechanism['name']}; {mechanism['contributions']}; {mechanism['noise']}. "
        f"Understudy {record.version}.",
        "composition": f"{mechanism['composition']}. {len(record.receipt.stages)} stages.",
        "post_processing": record.how or record.method,
        "justification": facts.justification,
        "utility": utility,
    }


ASSUMED_OPTIONS = (
    "Options, clipping bounds and delta were chosen without the private images, or by a step that "
    "is charged and listed; a choice made by looking at results is not covered."
)


def entry_text(entry: Mapping[str, Any]) -> str:
    """The entry as YAML; its dates are quoted, as the schema wants them."""
    return yaml.safe_dump(dict(entry), sort_keys=False, allow_unicode=True, width=100)


def entry_faults(entry: Any, fields: Any = REGISTRY_FIELDS, place: str = "") -> Iterator[str]:
    """What of an entry the schema refuses, and the slots that are still to be filled in."""
    if isinstance(fields, Mapping):
        if not isinstance(entry, Mapping):
            yield f"{place or 'the entry'}: is no mapping"
            return
        names = {name.removesuffix("?"): name for name in fields}
        yield from (f"{place}/{name}: is not in the schema" for name in entry if name not in names)
        for plain, name in names.items():
            if plain in entry:
                yield from entry_faults(entry[plain], fields[name], f"{place}/{plain}")
            elif name == plain:
                yield f"{place}/{plain}: is required"
    elif SLOT in (entry if isinstance(entry, list) else [entry]):
        yield f"{place}: is to be filled in"
    elif isinstance(fields, tuple):
        if entry not in fields:
            yield f"{place}: {entry!r} is none of {', '.join(map(str, fields))}"
    elif fields is date:
        if not (isinstance(entry, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", entry)):
            yield f"{place}: {entry!r} is no day as text, YYYY-MM-DD"
    elif not isinstance(entry, (int, float) if fields is float else fields) or entry == []:
        yield f"{place}: is no {fields.__name__}"
    elif isinstance(entry, list) and place.endswith("/data_curators"):
        curator = {"data_curator_name": str, "data_curator_type": CURATOR_TYPES}
        for number, one in enumerate(entry):
            yield from entry_faults(one, curator, f"{place}/{number}")
