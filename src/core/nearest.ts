/**
 * Finds the known field a caller most likely meant, for "unknown field `ttl`; did you mean `ttl_seconds`?".
 * People misspell, but more often they shorten or change the case or the unit, which edit distance alone would
 * miss. Says nothing rather than guess between equals.
 */

/** Longest word compared, in characters. No field is near it, and the cost of comparing grows with its length. */
const wordCharsMax = 64;

/** The known word nearest to `word`, or undefined when none is near or two are equally so. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length === 0 || word.length > wordCharsMax) return undefined;
  const parts = split(word);
  for (const near of [sameLetters, continues, misspells, sharesHead, sharesPart]) {
    const distances = known.map((candidate) => near(parts, split(candidate)));
    const least = Math.min(...distances);
    const best = known.filter((_, i) => distances[i] === least);
    if (least < Infinity) return best.length === 1 ? best[0] : undefined;
  }
  return undefined;
}

/** A way of being near: a distance, or Infinity when not near in this way. */
type Nearness = (word: readonly string[], candidate: readonly string[]) => number;

/** `ttlSeconds`, `TTL-seconds`: only the case or the separators differ. */
const sameLetters: Nearness = (word, candidate) => (word.join("") === candidate.join("") ? 0 : Infinity);

/** `ttl` for `ttl_seconds`, `meta` for `metadata`. One letter begins too many words to mean any. */
const continues: Nearness = (word, candidate) => {
  const [short, long] = [word.join(""), candidate.join("")];
  return short.length >= 2 && long.startsWith(short) ? long.length - short.length : Infinity;
};

/** `metdata`, `lease_di`: up to a third of the letters are wrong. */
const misspells: Nearness = (word, candidate) => {
  const [a, b] = [word.join(""), candidate.join("")];
  const distance = editDistance(a, b);
  return distance <= Math.max(1, Math.floor(Math.min(a.length, b.length) / 3)) ? distance : Infinity;
};

/** `ttl_ms` for `ttl_seconds`: the same thing in another unit. */
const sharesHead: Nearness = (word, candidate) => (word[0] === candidate[0] ? 1 : Infinity);

/** `id` for `lease_id`, `lock_lease` for it too. */
const sharesPart: Nearness = (word, candidate) =>
  word.some((part) => candidate.includes(part)) ? 1 : Infinity;

/** Lower-case parts of a snake_case, kebab-case or camelCase word. */
function split(word: string): string[] {
  return word
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((part) => part !== "");
}

/** Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(at(above, j) + 1, at(row, j - 1) + 1, at(above, j - 1) + same);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) least = Math.min(least, at(before, j - 2) + 1);
      row.push(least);
    }
    before = above;
    above = row;
  }
  return at(above, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
