// Runs in the page's own world and in workers, so that each pass asks for the same URLs. The clock
// goes in steps, because passes differ by a few hundredths of a second.
(seed, start) => {
  Math.random = () => (seed = seed * 48271 % 2147483647) / 2147483647;
  const Real = Date, {now} = Date, begin = now();
  const elapsed = () => now() - begin - (now() - begin) % 100, time = () => start + elapsed();
  const construct = (_, values, target) =>
    Reflect.construct(Real, values.length ? values : [time()], target);
  const apply = () => String(new Real(time()));
  Real.now = time;
  self.Date = Real.prototype.constructor = new Proxy(Real, {construct, apply});
  Performance.prototype.now = elapsed;
  Object.defineProperty(Performance.prototype, "timeOrigin", {get: () => start});
}
