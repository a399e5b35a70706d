// Runs in the page's own world, before its scripts, and reports attempts that `Fetch` does not see.
// A page can evade this, but gains nothing by it, because it has no network.
(report => {
  // The first *allowed* calls of what is wrapped work. They are reported, too, unless *silent*.
  const wrap = (name, allowed, silent) => {
    const Real = self[name];
    const construct = (_, values, target) => {
      const works = allowed-- > 0, [url] = values;
      if (!works || !silent)
        report(name + " " + (typeof url === "string" ? new URL(url, location.href) : ""));
      if (works) return Reflect.construct(Real, values, target);
      throw new DOMException("refused", "NotSupportedError");
    };
    if (Real) self[name] = new Proxy(Real, {construct});
  };
  wrap("WebSocket", Infinity); wrap("WebTransport", Infinity);
  wrap("RTCPeerConnection", 0); wrap("webkitRTCPeerConnection", 0); wrap("SharedWorker", 0);
  // Thousands of workers would keep the browser busy beyond the bounds.
  wrap("Worker", 16, true);
  Object.defineProperty(Navigator.prototype, "onLine", {get: () => true});
  // Such a frame can make the page go elsewhere without an event that the page gets.
  if (self !== top && origin === "null") { report("opaque-frame"); stop(); }
  // Readers see what is in closed roots, too.
  const closed = new WeakSet(), {attachShadow} = Element.prototype;
  const {get} = Object.getOwnPropertyDescriptor(Element.prototype, "shadowRoot");
  Element.prototype.attachShadow = function (init) {
    const isClosed = init?.mode === "closed";
    const root = attachShadow.call(this, isClosed ? {...init, mode: "open"} : init);
    if (isClosed) closed.add(this);
    return root;
  };
  Object.defineProperty(Element.prototype, "shadowRoot",
    {get() { return closed.has(this) ? null : get.call(this); }, configurable: true});
  // Few frames are drawn in virtual time. Observers of scrolling need some.
  const draw = requestAnimationFrame;
  self.cancelAnimationFrame = clearTimeout;
  self.requestAnimationFrame = callback =>
    setTimeout(() => { draw(() => 0); callback(performance.now()); }, 100);
  const frame = () => requestAnimationFrame(frame);
  if (self === top) frame();
})(self.webcrawlReport); delete self.webcrawlReport;
