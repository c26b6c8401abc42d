// What a test says about a small history, written out as lines.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../../src/verify/check.js";
import type { History } from "../../src/verify/history.js";
import { historyOf } from "./lines.js";

/** One that a correct service can have produced. */
export function valid(title: string, lines: readonly string[], more: Partial<History> = {}): void {
  test(`valid: ${title}`, () => {
    const { violations, unknown } = check(historyOf(lines, more));
    assert.deepEqual(
      violations.map(({ invariant, says }) => `${invariant} ${says}`),
      [],
    );
    assert.deepEqual(unknown, []);
  });
}

/** One that breaks the invariant, and no other. */
export function broken(
  invariant: string,
  title: string,
  lines: readonly string[],
  more: Partial<History> = {},
): void {
  test(`${invariant}: ${title}`, () => {
    const { violations } = check(historyOf(lines, more));
    const named = [...new Set(violations.map((violation) => violation.invariant))];
    assert.deepEqual(named, [invariant], violations.map(({ says }) => says).join("\n"));
  });
}
