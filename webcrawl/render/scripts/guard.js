// Runs before the page's scripts, in an isolated world, where the page cannot have changed any
// functions. `Fetch` sees navigations by HTTP, but no others.
if (self === top) {
  // Without a referrer it is the first document of a pass, and not the page that loads itself again.
  if (!document.referrer) {
    name = "";
    try { localStorage.clear(); sessionStorage.clear(); } catch {}
  }
  navigation.addEventListener("navigate", event => {
    const url = URL.parse(event.destination.url);
    if (!/^https?:/.test(url?.protocol) && event.downloadRequest === null) event.preventDefault();
  });
}
