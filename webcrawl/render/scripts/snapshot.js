// Runs in the isolated world of guard.js. Names of elements hide properties of forms and documents,
// but not those of prototypes. Nodes in frames are not instances of this window's classes.
(url, maxNodes, maxLength) => {
  const get = (type, name, node) => Reflect.get(type.prototype, name, node);
  const call = (type, name, node, ...values) => get(type, name, node).call(node, ...values);
  // The body of a frame that the page has written itself: frames with a URL are not loaded.
  const bodyIn = node => {
    if (get(Node, "nodeType", node) !== Node.ELEMENT_NODE) return null;
    const frame = {iframe: HTMLIFrameElement, frame: HTMLFrameElement}[get(Element, "localName", node)];
    try {
      const inner = frame && get(frame, "contentDocument", node);
      return inner ? get(Document, "body", inner) : null;
    } catch { return null; }
  };
  const shadowOf = node =>
    get(Node, "nodeType", node) === Node.ELEMENT_NODE ? get(Element, "shadowRoot", node) : null;
  // Scripts may have changed the URL that links are relative to.
  const isMoved = get(Document, "URL", document).split("#")[0] !== url;
  let nodes = 0, isCopied = isMoved;
  const count = [[Document, document]];
  while (count.length) {
    const [type, parent] = count.pop(), all = call(type, "querySelectorAll", parent, "*");
    nodes += all.length;
    if (nodes > maxNodes) return {nodes, html: ""};
    for (const one of all)
      for (const [inner, kind] of [[shadowOf(one), ShadowRoot], [bodyIn(one), Element]])
        if (inner) { isCopied = true; count.push([kind, inner]); }
  }
  let root = get(Document, "documentElement", document);
  if (!root) return {nodes, html: ""};
  if (isCopied) {
    const other = new DOMParser().parseFromString("", "text/html"), frames = [];
    const baseOf = node => get(Node, "baseURI", node), base = baseOf(root);
    const todo = [[root, root = other.importNode(root)]];
    while (todo.length) {
      const [from, to] = todo.pop();
      for (const parent of [shadowOf(from), from])
        if (parent) for (const child of get(Node, "childNodes", parent)) {
          const body = bodyIn(child), twin = body ? other.createElement("div") : other.importNode(child);
          todo.push([body ?? child, call(Node, "appendChild", to, twin)]);
          if (body && baseOf(body) !== base) frames.push([twin, baseOf(body)]);
        }
    }
    // Inner frames come first: links that are absolute stay as they are.
    for (const [twin, own] of frames.reverse())
      for (const link of twin.querySelectorAll("[href]"))
        call(Element, "setAttribute", link, "href",
          URL.parse(call(Element, "getAttribute", link, "href"), own)?.href ?? "");
    if (isMoved) {
      const first = other.createElement("base");
      first.setAttribute("href", base);
      call(Element, "prepend", call(Element, "querySelector", root, "head") ?? root, first);
    }
  }
  const doctype = get(Document, "doctype", document) ? "<!DOCTYPE html>" : "";
  const html = doctype + get(Element, "outerHTML", root);
  return {nodes, html: html.length > maxLength ? "" : html};
}
