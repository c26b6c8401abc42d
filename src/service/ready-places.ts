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

/** Up to where nothing of the scope stands. Whoever looks moves it on, and what is put before it moves it back. */
export interface Place {
  readonly prefix: string;
  readonly scope: NodeScope | null;
  at: string;
  /** How many look from here. */
  looks: number;
}

/** Places remembered: what becomes free is compared with each, and a forgotten one costs one longer look. */
const placesMax = 64;

export class ReadyPlaces {
  /** The one that was used last stands last. */
  readonly #places = new Map<string, Place>();

  /**
   * Where to begin to look; a scope of null is every node. It is kept until the look is over, however many others look: a look
   * whose place were forgotten would begin anew at each step, and never end.
   */
  enter(prefix: string, scope: NodeScope | null): Place {
    const name = nameOf(prefix, scope);
    const place = this.#places.get(name) ?? { prefix, scope, at: prefix, looks: 0 };
    this.#places.delete(name);
    this.#places.set(name, place);
    place.looks++;
    return place;
  }

  /** The look is over. */
  leave(left: Place): void {
    left.looks--;
    for (const [name, { looks }] of this.#places) {
      if (this.#places.size <= placesMax) return;
      if (looks === 0) this.#places.delete(name);
    }
  }

  /** Something was put there. */
  put(sort: string): void {
    for (const place of this.#places.values()) {
      const { prefix, scope, at } = place;
      if (sort >= at || !sort.startsWith(prefix)) continue;
      if (scope === null || scope.covers(sort.slice(sort.lastIndexOf("/") + 1))) place.at = sort;
    }
  }

  /** Also those who look begin anew. */
  forget(): void {
    for (const place of this.#places.values()) place.at = place.prefix;
  }
}

const nameOf = (prefix: string, scope: NodeScope | null): string =>
  scope === null ? prefix : `${prefix}\n${scope.key}`;
