// The same random life of a store for the same seed: names taken, renewed, freed, deleted, tokens made and moved.
// Run against the memory engine it is the model of what any other engine must show.
import assert from "node:assert/strict";
import { type Key, lockKey, tokenKey } from "../src/core/keys.js";
import type { AnyRecord } from "../src/core/records.js";
import type { Store } from "../src/store/store.js";
import {
  drafting,
  everything,
  farAhead,
  free,
  get,
  held,
  indexes,
  marker,
  seeded,
  space,
} from "./store-lab.js";

/** How many names there are, and how many records one step writes at most. */
export interface Breadth {
  readonly names: number;
  readonly perStep: number;
}

/** Few names, each written again and again. */
export const narrow: Breadth = { names: 40, perStep: 5 };
/** More keys than go into the tree in one slice, so that a crash finds the log half moved. */
export const wide: Breadth = { names: 3000, perStep: 300 };

function universe({ names }: Breadth): Map<Key, string | null> {
  const keys = new Map<Key, string | null>();
  for (let i = 0; i < names; i++) {
    const name = i % 4 ? `job-${i}` : `path:größe/${i}%`;
    keys.set(lockKey(space, name), name);
  }
  for (let i = 0; i < names / 3; i++) keys.set(tokenKey(`t${i}`), null);
  return keys;
}

function randomRecord(key: Key, name: string | null, random: (below: number) => number): AnyRecord | null {
  if (random(5) === 0) return null;
  // Sort strings of their own for each id: in this life no two records want the same entry.
  if (name === null) return marker(key, `${key.slice("token/".length)}-${random(5)}`);
  const token = 1 + random(1000);
  return random(3) === 0 ? free(name, token) : held(name, token, { dueAt: farAhead - random(50) });
}

/** The next step of the life: some records in one transact, with an event that numbers it. */
export function randomWrites(seed: number, breadth: Breadth): (store: Store) => Promise<number> {
  const random = seeded(seed);
  const keys = [...universe(breadth)];
  let step = 0;
  return (store) => {
    const writes = Array.from({ length: 1 + random(breadth.perStep) }, () => {
      const [key, name] = keys[random(keys.length)] ?? ["", null];
      return { key, record: randomRecord(key, name, random) };
    });
    const number = ++step;
    return store.transact(
      writes.map(({ key }) => key),
      drafting((draft) => {
        for (const { key, record } of writes) {
          draft.get(key);
          draft.put(key, record);
        }
        draft.emit({ type: "token", space, id: String(number) });
        return number;
      }),
    );
  };
}

/** Asserts that two stores cannot be told apart by what they hold. */
export async function assertSame(
  actual: Store,
  model: Store,
  life: { readonly seed: number; readonly breadth: Breadth },
  when: string,
): Promise<void> {
  const { seed, breadth } = life;
  const what = `seed ${seed}, ${when}`;
  const [shown, expected] = [await everything(actual, breadth === narrow ? 7 : 200), await everything(model)];
  assert.deepEqual([...shown], [...expected], what);
  for (const key of universe(breadth).keys())
    assert.deepEqual(await get(actual, key), await get(model, key), `${what}: ${key}`);
  const random = seeded(seed);
  const sorts = [...expected.keys()].map((entry) => entry.slice(entry.indexOf("/") + 1));
  for (let i = 0; i < 60; i++) {
    const [a = "", b = "\x7f"] = [
      sorts[random(sorts.length + 1)],
      sorts[random(sorts.length + 1)],
    ].toSorted();
    const range = { index: indexes[random(indexes.length)] ?? "held", from: a, to: b, limit: 1 + random(20) };
    assert.deepEqual(await actual.list(range), await model.list(range), `${what}: ${JSON.stringify(range)}`);
  }
}
