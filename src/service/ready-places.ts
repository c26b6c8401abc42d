/**
 * Up to where the queue of work is known to be empty. Work is taken from its front, and an engine would have to step
 * over all that was taken lately to find the first that is left.
 */
export class ReadyPlaces {
  /** By prefix of the index. */
  readonly #empty = new Map<string, string>();

  /** Where to begin to look. */
  from(prefix: string): string {
    return this.#empty.get(prefix) ?? prefix;
  }

  /** Nothing stood before this place when it was looked at. */
  passed(prefix: string, place: string): void {
    this.#empty.set(prefix, place);
  }

  /** Something was put there. */
  put(sort: string): void {
    for (const [prefix, place] of this.#empty)
      if (sort < place && sort.startsWith(prefix)) this.#empty.set(prefix, sort);
  }

  forget(): void {
    this.#empty.clear();
  }
}
