/**
 * Being told that a signal is aborted. However many wait for it, the signal has one listener: a hundred calls that share
 * one are no leak, which is what Node would warn of.
 */

interface Shared {
  readonly all: Set<() => void>;
  readonly listener: () => void;
}
const shared = new WeakMap<AbortSignal, Shared>();

/** Calls `told` once the signal is aborted, not if it is so already. Returns how to call it off. */
export function onAbort(signal: AbortSignal | undefined, told: () => void): () => void {
  if (signal === undefined) return () => {};
  const { all, listener } = shared.get(signal) ?? listenTo(signal);
  // A function of its own, so that the same one may be told twice.
  const mine = (): void => told();
  all.add(mine);
  return () => {
    if (!all.delete(mine) || all.size > 0) return;
    signal.removeEventListener("abort", listener);
    shared.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Shared {
  const all = new Set<() => void>();
  const listener = (): void => {
    shared.delete(signal);
    for (const told of [...all]) if (all.has(told)) told();
  };
  signal.addEventListener("abort", listener, { once: true });
  const one = { all, listener };
  shared.set(signal, one);
  return one;
}
