"""The application: a page and a JSON endpoint, which FastAPI describes at /openapi.json."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Route

from ggeur.serve.guard import RequestGuard, refused
from ggeur.serve.service import AnswerList, Service

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FOLDER = Path(__file__).parent / "page"
_PAGE = {"index.html": "text/html", "style.css": "text/css", "page.js": "text/javascript"}
_NO_FILE = "The form has no picture; send it as the field `file`, as curl -F file=@photo.jpg does"


class Error(BaseModel):
    """One sentence that says what is wrong."""

    error: str


def application(service: Service, names: tuple[str, ...] | None = LOOPBACK) -> FastAPI:
    """Return the application of a model, which answers to these host `names`, or to all with None."""
    files = {name: Response((_FOLDER / name).read_bytes(), media_type=kind) for name, kind in _PAGE.items()}
    app = FastAPI(
        title="ggeur model",
        version=service.about()["version"],
        docs_url=None,  # these pages load their scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        responses={status: {"model": Error} for status in (403, 421, 500)},
        exception_handlers={HTTPException: refused, RequestValidationError: _invalid},
        routes=[Route("/" + name.removeprefix("index.html"), file, methods=["GET"]) for name, file in files.items()],
    )
    app.add_middleware(RequestGuard, limits=service.limits, names=names)
    workers = asyncio.Semaphore(service.limits.workers)
    # FastAPI describes the form by itself; these bodies go beside it.
    picture = {"schema": {"type": "string", "format": "binary"}}
    bodies = dict.fromkeys(("image/jpeg", "image/png", "application/octet-stream"), picture)
    bodies |= {"application/json": {"schema": service.embeddings_request.model_json_schema()}}

    @app.post(
        "/predict",
        response_model=AnswerList,
        responses={status: {"model": Error} for status in (400, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": {"required": True, "content": bodies}},
    )
    async def predict(
        request: Request,
        file: UploadFile | None = None,
        top: Annotated[int, Query(ge=1, description="Number of classes to name")] = 5,
        reject: Annotated[float, Query(ge=0, le=1, description="Least probability of an answer")] = service.reject,
    ) -> Any:
        """Classify a picture, sent as the body or as the form field `file`, or embeddings, sent as JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not (kind in (*bodies, "multipart/form-data") or kind.startswith("image/")):
            raise HTTPException(415, f"Send a picture or JSON, as one of {', '.join(bodies)}, multipart/form-data")
        if kind == "multipart/form-data" and file is None:
            raise HTTPException(422, _NO_FILE)
        content = await (file.read() if file is not None else request.body())
        answer = service.embeddings if kind == "application/json" else service.picture
        async with workers:
            return await asyncio.to_thread(answer, content, top, reject)

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Describe the model."""
        return service.about()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the server answers."""
        return {"status": "ok"}

    return app


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    option = f"{first['loc'][-1]} is not valid: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return await refused(request, HTTPException(422, _NO_FILE if first["loc"][0] == "body" else option))
