/** Chance that a seed repeats. */

/** Numbers in [0, 1): mulberry32, small and good enough to choose by. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Another seed for each part of a run, so that one part's choices do not depend on the others' pace. */
export function seedFor(seed: number, part: string): number {
  let mixed = seed >>> 0;
  for (const char of part) mixed = Math.imul(mixed ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return mixed;
}
