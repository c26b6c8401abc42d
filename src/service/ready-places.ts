/**
 * Up to where the queue of work is known to hold nothing for a caller. Work is taken from its front, and an engine would
 * have to step over all that was taken lately to find the first that is left; and a caller whose token covers some nodes
 * only would have to pass over all the others each time.
 */

/** Some of a space's nodes: those that a token's scopes cover. */
export interface NodeScope {
  /** The same for scopes that cover the same. */
  readonly key: string;
  readonly covers: (id: string) => boolean;
}

interface Place {
  readonly prefix: string;
  readonly scope: NodeScope | null;
  readonly at: string;
}

/** Places remembered: what becomes free is compared with each, and a forgotten one costs one longer look. */
const placesMax = 64;

export class ReadyPlaces {
  /** The one that was used last stands last. */
  readonly #places = new Map<string, Place>();

  /** Where to begin to look; a scope of null is every node. */
  from(prefix: string, scope: NodeScope | null): string {
    return this.#places.get(nameOf(prefix, scope))?.at ?? prefix;
  }

  /** Nothing of the scope stood before this place when it was looked at. */
  passed(prefix: string, scope: NodeScope | null, at: string): void {
    const name = nameOf(prefix, scope);
    this.#places.delete(name);
    this.#places.set(name, { prefix, scope, at });
    if (this.#places.size <= placesMax) return;
    for (const oldest of this.#places.keys()) {
      this.#places.delete(oldest);
      return;
    }
  }

  /** Something was put there. */
  put(sort: string): void {
    for (const [name, place] of this.#places) {
      const { prefix, scope, at } = place;
      if (sort >= at || !sort.startsWith(prefix)) continue;
      if (scope === null || scope.covers(sort.slice(sort.lastIndexOf("/") + 1)))
        this.#places.set(name, { ...place, at: sort });
    }
  }

  forget(): void {
    this.#places.clear();
  }
}

const nameOf = (prefix: string, scope: NodeScope | null): string =>
  scope === null ? prefix : `${prefix}\n${scope.key}`;
