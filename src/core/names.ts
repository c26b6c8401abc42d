/**
 * Which names can be leased, and which of them overlap. A name that was parsed is in its one normal form:
 * authorization and storage see the same string.
 */
import { nameBytesMax } from "./limits.js";

export type ParsedName = { readonly name: string } | { readonly invalid: string };

const plain = /^[A-Za-z0-9._:/@+-]+$/;
/** Control, format (bidi), surrogate, private use, separators, and whatever a screen does not show. */
export const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** A stranger's text as it may stand in a message: nothing in it acts on a terminal or turns words around. */
export const printable = (text: string): string =>
  /^[\x20-\x7e]*$/.test(text)
    ? text
    : text.replace(new RegExp(unprintable, "gu"), (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);

const pathPrefix = "path:";
const repoPrefix = "repo:";
export const repoGlobal = "repo:global";

export function parseName(raw: string): ParsedName {
  if (raw === "") return { invalid: "a name must not be empty" };
  if (raw.startsWith(pathPrefix)) return parsePath(raw);
  if (!plain.test(raw))
    return {
      invalid: "a name may hold A-Z a-z 0-9 . _ : / @ + - only (file paths: start the name with path:)",
    };
  if (raw.length > nameBytesMax) return tooLong();
  return checkSegments(raw, raw);
}

function parsePath(raw: string): ParsedName {
  if (unprintable.test(raw))
    return { invalid: "a path must not hold control, bidi or zero-width characters" };
  const path = raw.slice(pathPrefix.length).normalize("NFC");
  if (path.startsWith("/")) return { invalid: "a path is relative to the repository: drop the leading /" };
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  const name = pathPrefix + segments.join("/");
  if (new TextEncoder().encode(name).length > nameBytesMax) return tooLong();
  return segments.length === 0
    ? { invalid: "a path must not be empty" }
    : checkSegments(name, segments.join("/"));
}

/** An empty, `.` or `..` segment. */
const badSegment = /(?:^|\/)\.{0,2}(?:\/|$)/;

function checkSegments(name: string, path: string): ParsedName {
  return badSegment.test(path) ? { invalid: "a name must not have empty, . or .. segments" } : { name };
}

const tooLong = (): ParsedName => ({ invalid: `a name is at most ${nameBytesMax} bytes` });

/** Names that a lease on `name` may collide with: single names above it, and everything under some prefixes. */
export interface Overlap {
  readonly names: readonly string[];
  readonly prefixes: readonly string[];
}

const noOverlap: Overlap = { names: [], prefixes: [] };

/** Rule 12: paths overlap their ancestors and all below them; `repo:global` overlaps every path: and repo: name. */
export function overlapOf(name: string): Overlap {
  if (name === repoGlobal) return { names: [], prefixes: [pathPrefix, repoPrefix] };
  if (name.startsWith(repoPrefix)) return { names: [repoGlobal], prefixes: [] };
  if (!name.startsWith(pathPrefix)) return noOverlap;
  const names = [repoGlobal];
  for (let slash = name.indexOf("/"); slash !== -1; slash = name.indexOf("/", slash + 1))
    names.push(name.slice(0, slash));
  return { names, prefixes: [`${name}/`] };
}

export const hasOverlap = (name: string): boolean =>
  name.startsWith(pathPrefix) || name.startsWith(repoPrefix);

/** Tells whether leases on this name and another exclude each other; made once where many others are asked about. */
export function excludes(name: string): (other: string) => boolean {
  const { names, prefixes } = overlapOf(name);
  return (other) =>
    other === name || names.includes(other) || prefixes.some((prefix) => other.startsWith(prefix));
}

/** Whether leases on two names exclude each other. */
export const overlaps = (one: string, other: string): boolean => excludes(one)(other);
