"""The description of the endpoint, as OpenAPI 3.1 has it; a test asks for all that it allows and more."""

from typing import Any

from ggeur.serve.service import SHOWN, Service

_STATUS = {
    "400": "The request cannot be read.",
    "403": "The request comes from another page than the server's own.",
    "408": "The request took too long to arrive.",
    "413": "The upload is too large.",
    "415": "Neither a picture nor JSON.",
    "421": "The server does not go by this name.",
    "422": "The picture, the rows or an option cannot be used.",
    "429": "Too many requests.",
    "500": "The server failed.",
    "503": "Too many requests are waiting.",
}


def description(service: Service) -> dict[str, Any]:
    """Of the server of this model."""
    answer = {
        "type": "object",
        "required": ["class", "probability", "top"],
        "additionalProperties": False,
        "properties": {
            "class": {"type": ["string", "null"], "description": "The likeliest class; null: I do not know."},
            "probability": {"$ref": "#/components/schemas/Probability"},
            "top": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["class", "probability"],
                    "properties": {
                        "class": {"type": "string"},
                        "probability": {"$ref": "#/components/schemas/Probability"},
                    },
                },
            },
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "A ggeur model", "version": str(service.about()["version"])},
        "paths": {
            "/predict": {"post": _predict(service)},
            "/model": {"get": _read("What the model is.", {"type": "object"})},
            "/healthz": {"get": _read("Whether the server answers.", {"type": "object", "required": ["status"]})},
            "/openapi.json": {"get": _read("This description.", {"type": "object"})},
        },
        "components": {
            "schemas": {
                "Probability": {"type": "number", "minimum": 0, "maximum": 1},
                "Answer": answer,
                "Answers": {
                    "type": "object",
                    "required": ["answers"],
                    "additionalProperties": False,
                    "properties": {
                        "answers": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Answer"}}
                    },
                },
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "additionalProperties": False,
                    "properties": {"error": {"type": "string"}},
                },
            }
        },
    }


def _predict(service: Service) -> dict[str, Any]:
    p = service.model.takes
    row = {"type": "array", "minItems": p, "maxItems": p, "items": {"type": "number"}}
    rows = {
        "type": "object",
        "required": ["embeddings"],
        "additionalProperties": False,
        "properties": {
            "embeddings": {"type": "array", "minItems": 1, "maxItems": service.limits.rows, "items": row},
        },
    }
    return {
        "operationId": "predict",
        "summary": "What is in a photograph, or of which class rows of the model's encoder are.",
        "parameters": [
            _option("top", {"type": "integer", "minimum": 1, "default": SHOWN}, "How many classes to name."),
            _option(
                "reject",
                {"type": "number", "minimum": 0, "maximum": 1, "default": service.reject},
                "Least probability of an answer.",
            ),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "image/jpeg": {"schema": {"type": "string", "format": "binary"}},
                "image/png": {"schema": {"type": "string", "format": "binary"}},
                "application/json": {"schema": rows},
            },
        },
        "responses": {"200": _json("The answers.", {"$ref": "#/components/schemas/Answers"}), **_errors(_STATUS)},
    }


def _option(name: str, schema: dict[str, Any], what: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": what}


def _read(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"summary": what, "responses": {"200": _json(what, schema), **_errors({"421": _STATUS["421"]})}}


def _json(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _errors(status: dict[str, str]) -> dict[str, Any]:
    return {code: _json(what, {"$ref": "#/components/schemas/Error"}) for code, what in status.items()}
