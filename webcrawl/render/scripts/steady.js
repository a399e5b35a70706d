// Runs in the page's own world and in workers, so that each pass asks for the same URLs. The clock
// goes in steps, because passes differ by a few hundredths of a second. Reading it moves it on, too:
// virtual time stands still in a loop that waits.
(seed, start, reads = 0) => {
  Math.random = () => (seed = seed * 48271 % 2147483647) / 2147483647;
  const Real = Date, {now} = Date, begin = now();
  const elapsed = () => ((now() - begin + reads++ / 1000) / 100 | 0) * 100;
  const time = () => start + elapsed();
  const construct = (_, values, target) =>
    Reflect.construct(Real, values.length ? values : [time()], target);
  const apply = () => String(new Real(time()));
  Real.now = time;
  self.Date = Real.prototype.constructor = new Proxy(Real, {construct, apply});
  Performance.prototype.now = elapsed;
  Object.defineProperty(Performance.prototype, "timeOrigin", {get: () => start});
}
