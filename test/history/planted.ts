// Bugs that a lease service can have, one at a time: each replaces some part of the true service. They are what the
// checker is measured by, and exist only here.
import type { Plant } from "./driver.js";
import { bugsInParts } from "./planted-parts.js";
import { bugsInRules } from "./planted-rules.js";
import { bugsInWords } from "./planted-words.js";

export interface Bug extends Plant {
  readonly bug: string;
  /** Invariants that it breaks: a verdict must name one of them. */
  readonly breaks: readonly string[];
}

export const bugs: readonly Bug[] = [...bugsInRules, ...bugsInParts, ...bugsInWords];
