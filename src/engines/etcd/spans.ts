/**
 * Many keys as few spans of keys. A span covers keys between its own, too: so those that begin alike are put together first, and the
 * ancestors of a path are one span with little else in it.
 */
export interface Span {
  readonly first: string;
  readonly last: string;
}

/** At most `most` spans, which is at least one, that cover all keys. */
export function spansOf(keys: readonly string[], most: number): Span[] {
  const sorted = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  // Cut where neighbours have least in common.
  const cuts = sorted
    .slice(1)
    .map((key, i) => ({ at: i + 1, common: commonLength(sorted[i] ?? "", key) }))
    .sort((a, b) => a.common - b.common)
    .slice(0, Math.max(0, most - 1))
    .map(({ at }) => at)
    .sort((a, b) => a - b);
  return [0, ...cuts].map((from, i) => ({
    first: sorted[from] ?? "",
    last: sorted[(cuts[i] ?? sorted.length) - 1] ?? "",
  }));
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}
