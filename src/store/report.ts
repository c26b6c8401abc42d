/**
 * How a store, and those who look after what is in it, tell of what goes wrong: often the same thing again and again, so whoever
 * listens decides how much of it is said.
 */

/** Told why something failed, each time that it does, and null the first time that it goes well afterwards. */
export type Report = (what: string, failure: unknown) => void;

/** What fails if the store itself does: everything else that fails meanwhile follows from it. */
export const theStore = "the store";

/** Something that is tried over and over. */
export class Attempts {
  #hasFailed = false;

  constructor(
    readonly what: string,
    readonly report: Report,
  ) {}

  failed(error: unknown): void {
    this.#hasFailed = true;
    this.report(this.what, error);
  }

  worked(): void {
    if (!this.#hasFailed) return;
    this.#hasFailed = false;
    this.report(this.what, null);
  }
}
