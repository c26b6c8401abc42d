// What an engine states about itself, and which tests of the suite it takes: what cannot hold is left out by name.
import assert from "node:assert/strict";
import { test } from "node:test";

/** What an engine states about itself that the suite must know. */
export interface Differences {
  /** Tests that cannot hold, by what the engine says of itself. They are left out, and the suite tells of each. */
  readonly skip?: readonly { readonly reason: string; readonly tests: readonly string[] }[];
  /** Only locks are kept: where another engine is tried with any record, this one is with names that overlap others. */
  readonly keepsOnlyLocks?: boolean;
  /** Instants are told by the reader's clock, so records are compared without them. */
  readonly translatesClocks?: boolean;
  /** Share of the repetitions, for an engine whose steps take long. */
  readonly effort?: number;
}

/** Which tests of the suite an engine takes. */
export class Choice {
  readonly #reasons = new Map<string, string>();
  readonly #offered = new Set<string>();

  constructor({ skip = [] }: Differences) {
    for (const { reason, tests } of skip) for (const what of tests) this.#reasons.set(what, reason);
  }

  offer(what: string, take: () => void): void {
    this.#offered.add(what);
    if (!this.#reasons.has(what)) take();
  }

  /** A name that the suite does not have would hide a test that was renamed. */
  tellWhatIsLeftOut(engine: string): void {
    if (this.#reasons.size === 0) return;
    test(`what ${engine} leaves out of the suite is in the suite, and for a reason`, (t) => {
      for (const [what, reason] of this.#reasons) {
        assert.ok(this.#offered.has(what), `the suite has no test "${what}"`);
        assert.ok(reason.length > 20, `"${what}" is left out without a reason`);
        t.diagnostic(`left out: ${what} | ${reason}`);
      }
      assert.ok(this.#reasons.size < this.#offered.size / 3, "most of the contract is left");
    });
  }
}
