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

const names = Array.from({ length: 40 }, (_, i) => (i % 4 ? `job-${i}` : `path:größe/${i}%`));
const ids = Array.from({ length: 15 }, (_, i) => `t${i}`);
const keys: readonly Key[] = [...names.map((name) => lockKey(space, name)), ...ids.map(tokenKey)];

function randomRecord(key: Key, random: (below: number) => number): AnyRecord | null {
  if (random(5) === 0) return null;
  const name = names.find((each) => lockKey(space, each) === key);
  // Sort strings of their own for each id: in this life no two records want the same entry.
  if (name === undefined) return marker(key, `${key.slice("token/".length)}-${random(5)}`);
  const token = 1 + random(1000);
  return random(3) === 0 ? free(name, token) : held(name, token, { dueAt: farAhead - random(50) });
}

/** The next step of the life: one to five records in one transact, with an event that numbers it. */
export function randomWrites(seed: number): (store: Store) => Promise<number> {
  const random = seeded(seed);
  let step = 0;
  return (store) => {
    const writes = Array.from({ length: 1 + random(5) }, () => {
      const key = keys[random(keys.length)] ?? "";
      return { key, record: randomRecord(key, random) };
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
export async function assertSame(actual: Store, model: Store, seed: number, when: string): Promise<void> {
  const what = `seed ${seed}, ${when}`;
  const [shown, expected] = [await everything(actual, 7), await everything(model)];
  assert.deepEqual([...shown], [...expected], what);
  for (const key of keys) assert.deepEqual(await get(actual, key), await get(model, key), `${what}: ${key}`);
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
