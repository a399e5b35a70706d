"""A hub of the package Flask-WebSub, run by the Python of .venv-websub. Prints its URL.

    python flask_hub.py ADDRESS DATABASE ALGORITHM

POST /publish?topic=URL distributes the body.
"""

import base64
import sys

from celery import Celery
from flask import Flask, request
from flask_websub.hub import Hub, SQLite3HubStorage
from werkzeug.serving import make_server


def main(address, database, algorithm):
    app = Flask(__name__)
    celery = Celery()
    celery.conf.task_always_eager = True  # in this process, without a broker
    hub = Hub(SQLite3HubStorage(database), celery, SIGNATURE_ALGORITHM=algorithm)
    app.register_blueprint(hub.build_blueprint(url_prefix="/hub"))

    @app.post("/publish")
    def publish():
        topic = request.args["topic"]
        links = f'<{request.host_url}hub>; rel="hub", <{topic}>; rel="self"'
        headers = {"Link": links, "Content-Type": "application/atom+xml"}
        content = base64.b64encode(request.get_data()).decode()
        hub.send_change_notification.delay(topic, {"headers": headers, "content": content})
        return "published\n"

    server = make_server(address, 0, app, threaded=True)
    print(f"http://{address}:{server.port}/hub", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
