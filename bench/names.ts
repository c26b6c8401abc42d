// Fresh names for acquires. A source with the same stem and seed gives the same names again, so that the echo
// server and Holdfast see the same request bytes. Random names carry the random part first: they land all over a
// filled store's key order instead of beside one another.

export interface NameSource {
  readonly style: "counter" | "random" | "same";
  /** Makes the names of one run differ from those of every other run. */
  readonly stem: string;
  readonly seed?: number;
}

/** A function that gives the next name at each call; all names of one style have one length. */
export function namesOf(source: NameSource): () => string {
  if (source.style === "same") return () => source.stem;
  if (source.style === "counter") {
    let count = 0;
    return () => `${source.stem}-${String(count++).padStart(16, "0")}`;
  }
  const word = randomWords(source.seed ?? 1);
  return () => `${hex(word())}${hex(word())}-${source.stem}`;
}

/** Mulberry32: small, fast, seeded. */
function randomWords(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1) | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

function hex(word: number): string {
  return word.toString(16).padStart(8, "0");
}
