"""Start Flower's SuperLink so that it answers only processes of its own user.

    python -m ggeur.flower.machines.superlink OPTIONS     as flower-superlink OPTIONS

Its API for administrators asks for no password: whoever reaches it can start apps, which run at every site.
"""

import os
import sys


def main() -> None:
    """Run the SuperLink."""
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # uvicorn would let a header say whose connection it is
    from flwr.superlink.cli.flower_superlink import flower_superlink

    from ggeur.flower.door.own_user import OwnUserOnly, can_tell

    try:
        from flwr.superlink import extensions
        from starlette.middleware import Middleware

        given = extensions.get_middleware
    except (ImportError, AttributeError):
        print("This version of Flower takes commands of every local user.", file=sys.stderr, flush=True)
    else:
        extensions.get_middleware = lambda: (Middleware(OwnUserOnly), *given())
        if not can_tell():
            print("This system does not tell local users apart: each can give commands.", file=sys.stderr, flush=True)
    flower_superlink()


if __name__ == "__main__":
    main()
