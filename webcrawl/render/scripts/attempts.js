// Tries to reach the port of each attempt, whose name is its key in *ports*.
ports => {
  // Gets past wrappers, as a page can.
  const real = new Proxy({}, {get: (_, name) => self[name].prototype.constructor});
  const script = at => URL.createObjectURL(new Blob(
    [`fetch("http://${at}/").catch(() => 0); new WebSocket("ws://${at}/");`]));
  const attempts = {
    fetch: at => fetch(`http://${at}/`, {mode: "no-cors"}),
    post: at => fetch(`http://${at}/`, {mode: "no-cors", method: "POST", body: "x"}),
    redirect: at => fetch("/redirect?" + at, {mode: "no-cors"}),
    keepalive: at => fetch(`http://${at}/`, {mode: "no-cors", keepalive: true}),
    image: at => { new Image().src = `http://${at}/`; },
    beacon: at => navigator.sendBeacon(`http://${at}/`, "x"),
    events: at => new (real.EventSource)(`http://${at}/`),
    websocket: at => new (real.WebSocket)(`ws://${at}/`),
    webtransport: at => new (real.WebTransport)(`https://${at}/`),
    webrtc: at => {
      const servers = [{urls: "stun:" + at},
        {urls: `turn:${at}?transport=tcp`, username: "x", credential: "x"}];
      const peer = new (real.RTCPeerConnection)({iceServers: servers});
      peer.createDataChannel("x");
      return peer.createOffer().then(offer => peer.setLocalDescription(offer));
    },
    hints: at => { for (const rel of ["dns-prefetch", "preconnect", "prefetch", "preload"]) {
      const link = document.createElement("link");
      link.rel = rel; link.as = "fetch"; link.href = `http://${at}/`;
      document.head.append(link);
    } },
    frame: at => { document.body.append(document.createElement("iframe"));
      document.body.lastChild.src = `http://${at}/`; },
    form: at => { const form = document.createElement("form");
      form.action = `http://${at}/`; form.method = "post"; form.target = "_blank";
      document.body.append(form); form.submit(); },
    popup: at => window.open(`http://${at}/`),
    worker: at => new (real.Worker)(script(at)),
    sharedworker: at => new (real.SharedWorker)(script(at), {extendedLifetime: true}),
    serviceworker: at => navigator.serviceWorker.register("/worker.js?" + at),
    navigation: at => { location.href = `http://${at}/`; },
  };
  for (const [name, port] of Object.entries(ports))
    for (const host of ["127.0.0.1", "[::1]", "localhost"])
      try { Promise.resolve(attempts[name](`${host}:${port}`)).catch(() => 0); } catch {}
  // Gives connections time: the page's own timers run in virtual time.
  (async () => { for (let i = 0; i < 6; i++) await fetch("/wait?" + i); })();
}
