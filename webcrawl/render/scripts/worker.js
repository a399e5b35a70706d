// Service worker of attempts.js, which tries to reach the address in its own query.
const at = location.search.slice(1);
fetch(`http://${at}/`, {mode: "no-cors"}).catch(() => 0);
new WebSocket(`ws://${at}/`);
