/**
 * Patterns of paths, as `require` in the project file has them: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of
 * directories. A pattern means the whole path from the repository's root. Matching never backtracks over more than the
 * last star: a pattern comes with a clone, and must not be able to stop a commit by being slow.
 */

export type Glob = (path: string) => boolean;
export type ParsedGlob = { readonly glob: Glob } | { readonly invalid: string };

/** What `{…}` may multiply one pattern to: beyond, it is no list that anybody wrote by hand. */
const alternativesMax = 256;

type OneOf<Item> = "any number" | ((item: Item) => boolean);

class WrongPattern extends Error {}

export function parseGlob(raw: string): ParsedGlob {
  const pattern = raw.normalize("NFC").replace(/^\//, "");
  if (pattern.startsWith("!"))
    return {
      invalid: "a pattern cannot take away from others: list what needs a lock (\\! for such a name)",
    };
  try {
    const ways = alternativesOf(pattern).map(segmentsOf);
    return {
      glob: (path) => {
        const segments = path.normalize("NFC").split("/");
        return ways.some((way) => matchesAll(way, segments));
      },
    };
  } catch (error) {
    if (error instanceof WrongPattern) return { invalid: error.message };
    throw error;
  }
}

/** `src/{a,b}/{c,d}` is four patterns. */
function alternativesOf(pattern: string): string[] {
  const group = /^((?:\\.|\[[!^]?\]?(?:\\.|[^\]\\])*\]|[^\\[{}])*)\{((?:\\.|[^\\{}])*)\}(.*)$/su.exec(
    pattern,
  );
  if (group === null) {
    if (/^(?:\\.|\[[!^]?\]?(?:\\.|[^\]\\])*\]|[^\\[{}])*[{}]/su.test(pattern))
      throw new WrongPattern("{ and } belong together and not into one another (\\{ for the character)");
    return [pattern];
  }
  const [, head = "", inner = "", tail = ""] = group;
  const tails = alternativesOf(tail);
  const found = inner.split(/(?<!\\),/u).flatMap((one) => tails.map((rest) => head + one + rest));
  if (found.length > alternativesMax)
    throw new WrongPattern(`{…} makes it more than ${alternativesMax} patterns`);
  return found;
}

/** A last segment without wildcards may be a directory: then all below it is meant, as `src` and `src/` say. */
function segmentsOf(pattern: string): OneOf<string>[] {
  const parts = pattern.replace(/\/$/, "").split("/");
  if (parts.some((part) => /^\.{0,2}$/.test(part)))
    throw new WrongPattern("it must not have empty, . or .. segments");
  const segments = parts.map((part): OneOf<string> => (part === "**" ? "any number" : segmentOf(part)));
  return /[*?[]/.test(parts.at(-1)?.replace(/\\./gu, "") ?? "") ? segments : [...segments, "any number"];
}

function segmentOf(part: string): (segment: string) => boolean {
  const characters: OneOf<string>[] = [];
  for (const [token] of part.matchAll(/\\.|\*+|\?|\[[!^]?\]?(?:\\.|[^\]\\])*\]|./gsu))
    characters.push(characterOf(token));
  return (segment) => matchesAll(characters, [...segment]);
}

function characterOf(token: string): OneOf<string> {
  if (token.startsWith("*")) return "any number";
  if (token === "?") return () => true;
  if (token === "[" || token === "\\")
    throw new WrongPattern(`${token} has nothing that ends it (\\${token} for the character)`);
  if (token.startsWith("[")) return classOf(token);
  const literal = token.replace(/^\\/, "");
  return (character) => character === literal;
}

/** `[a-z_]`, `[!0-9]` */
function classOf(token: string): (character: string) => boolean {
  const [, not = "", inner = ""] = /^\[([!^]?)(.*)\]$/su.exec(token) ?? [];
  const ranges = [...inner.matchAll(/(\\.|[^\\])(?:-(\\.|[^\\]))?/gsu)].map(([, from = "", to = from]) => [
    from.replace(/^\\/, ""),
    to.replace(/^\\/, ""),
  ]);
  const point = (character = ""): number => character.codePointAt(0) ?? 0;
  return (character) =>
    (not === "") ===
    ranges.some(([from, to]) => point(from) <= point(character) && point(character) <= point(to));
}

/** Once a later star is reached, an earlier one need not take more: whatever it gave up the later one can take. */
function matchesAll<Item>(pattern: readonly OneOf<Item>[], items: readonly Item[]): boolean {
  let at = 0;
  let star: { readonly pattern: number; taken: number } | null = null;
  for (let item = 0; item < items.length; ) {
    const wanted = pattern[at];
    if (wanted === "any number") {
      star = { pattern: at, taken: item };
      at += 1;
    } else if (wanted?.(items[item] as Item)) {
      at += 1;
      item += 1;
    } else if (star !== null) {
      star.taken += 1;
      item = star.taken;
      at = star.pattern + 1;
    } else return false;
  }
  return pattern.slice(at).every((wanted) => wanted === "any number");
}
