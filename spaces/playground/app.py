"""The playground as a Space; on one's own machine, `make playground`.

Settings are environment variables: see the README beside this file.
"""

import os

import uvicorn

from awm_hub.playground.app import create_app

if __name__ == "__main__":
    host = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1")
    port = int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    config = uvicorn.Config(
        create_app(), host=host, port=port, log_level="warning", proxy_headers=True, forwarded_allow_ips="*"
    )
    socket = config.bind_socket()  # which says so, and ends, where somebody else has the port
    print(f"http://{host}:{port} (Ctrl-C ends it)", flush=True)
    uvicorn.Server(config).run(sockets=[socket])
