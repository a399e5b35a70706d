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
