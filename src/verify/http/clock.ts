/** Time of a run against a real service: the machine's monotonic clock, and waiting by it. */

/** In ms. The same for all processes of a machine, so that their histories can be put together. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Resolves after that time, or as soon as the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
