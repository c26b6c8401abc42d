/**
 * What is done when the cluster is not the one that the data was written in, before anything is granted: the token floors are
 * raised above all that can have been granted and forgotten, and the feed gets another name, since its numbers begin again.
 */

import { floorsAfterFailover } from "../../core/copies.js";
import type { Key } from "../../core/keys.js";
import { floorKey } from "../../core/keys.js";
import type { FloorRecord } from "../../core/records.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import { StoreError } from "../../store/store.js";
import type { Cluster } from "./cluster.js";
import type { Layout } from "./layout.js";
import type { KeyValue } from "./messages.js";
import { freshMeta, type MetaNow } from "./meta.js";

/** Records looked at together. */
const page = 1000;

/** Makes the data this cluster's. Of several servers that try, one does it; null: another did, look again. */
export async function adopt(
  cluster: Cluster,
  layout: Layout,
  before: MetaNow,
  opsMax: number,
): Promise<MetaNow | null> {
  const status = await cluster.status();
  const { found } = await cluster.look({ reads: [{ key: layout.clock }] });
  const clock = Number(found[0]?.[0]?.value ?? Number.NaN);
  const wallNow = Date.now();
  const floors = floorsAfterFailover(await floorsIn(cluster, layout), await tokenHighIn(cluster, layout), {
    wallNow,
    ageMs: Number.isSafeInteger(clock) ? wallNow - clock : 0,
  });
  const changes = floors.map((floor) => [layout.record(floorKey(floor.space)), encodeRecord(floor)] as const);
  const { revision: later } = await cluster.look({ reads: [{ key: layout.meta }] });
  const { origin } = before.meta;
  const meta = { ...freshMeta(status, later), ...(origin === undefined ? {} : { origin }) };
  const compare = [{ key: layout.meta, revision: before.revision }];
  const step = opsMax - 1;
  // A floor that was raised twice does no harm, so they need not all be raised in one step: only before the last one.
  for (let at = 0; at < changes.length - step; at += step) {
    const some = new Map(changes.slice(at, at + step));
    const { succeeded } = await cluster.change({ compare, changes: some, reads: [], otherwise: [] });
    if (!succeeded) return null;
  }
  const last = new Map([...changes.slice(-step), [layout.meta, JSON.stringify(meta)] as const]);
  const { succeeded, revision } = await cluster.change({ compare, changes: last, reads: [], otherwise: [] });
  return succeeded ? { meta, revision } : null;
}

async function floorsIn(cluster: Cluster, layout: Layout): Promise<FloorRecord[]> {
  const floors: FloorRecord[] = [];
  for await (const { value } of all(cluster, layout, "floor/")) {
    const record = decodeRecord(value);
    if (record.kind === "floor") floors.push(record);
  }
  return floors;
}

async function tokenHighIn(cluster: Cluster, layout: Layout): Promise<number> {
  let high = 0;
  for await (const { value } of all(cluster, layout, "lock/")) {
    const record = decodeRecord(value);
    if (record.kind === "lock") high = Math.max(high, record.token);
  }
  return high;
}

async function* all(cluster: Cluster, layout: Layout, kind: Key): AsyncGenerator<KeyValue> {
  const end = layout.record(`${kind.slice(0, -1)}0`); // the character after the slash
  for (let key = layout.record(kind); ; ) {
    const { found } = await cluster.look({ reads: [{ key, end, limit: page }] });
    const rows = found[0];
    if (rows === undefined) throw new StoreError("corrupt", "etcd gave no answer to a range");
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < page) return;
    key = `${last.key}\u0000`;
  }
}
