/**
 * What the data under a prefix says about itself: its format, the name of its feed, the cluster that it was written in, and
 * whether it was moved away. Every commit compares this key, so whoever writes it stops all others at once.
 *
 * A cluster that was restored from a snapshot has forgotten what came after it. It may have another id than before, but need not:
 * the id is made of the members' addresses and a word that few change. What a restore cannot keep is the number of the last entry in
 * the cluster's log, which begins anew, while revisions go on. Each revision is an entry of the log, so the log's number less the
 * revision never gets smaller: where it has, this is not the cluster that it was.
 */
import { randomBytes } from "node:crypto";
import { StoreError } from "../../store/store.js";
import type { Cluster } from "./cluster.js";
import type { Layout } from "./layout.js";
import type { KeyValue, Status } from "./messages.js";

export interface Meta {
  readonly format: 1;
  /** Tells the feed's places of this data from those of any other. */
  readonly epoch: string;
  readonly cluster: string;
  /** By how much the log's number was ahead of the revision when this was written. */
  readonly ahead: number;
  /** Why the data must not be used, as where it has gone (store/archive.ts); null: it can be. */
  readonly moved: string | null;
  /** The migration that filled it, if one did. */
  readonly origin?: string;
}

export const formatNow = 1;

export interface MetaNow {
  readonly meta: Meta;
  readonly revision: number;
}

type Place = Pick<Status, "cluster" | "raftIndex" | "revision">;

/**
 * Whether the member is one of the cluster that the data was written in, with nothing forgotten. One that has not even come to where
 * `meta` was written is only late.
 */
export const isSameCluster = ({ meta, revision }: MetaNow, status: Place): boolean =>
  meta.cluster === status.cluster &&
  (status.revision < revision || status.raftIndex - status.revision >= meta.ahead);

/** `revision` was read after `status`, so that the log is at least as far ahead as is written down. */
export const freshMeta = (status: Status, revision: number): Meta => ({
  format: formatNow,
  epoch: randomBytes(6).toString("hex"),
  cluster: status.cluster,
  ahead: status.appliedIndex - revision,
  moved: null,
});

export function readMeta({ value, key }: KeyValue, location: string): Meta {
  let meta: Partial<Meta> | null;
  try {
    meta = JSON.parse(value);
  } catch {
    meta = null;
  }
  if (meta === null || typeof meta !== "object" || typeof meta.format !== "number")
    throw new StoreError(
      "corrupt",
      `the key ${key} in ${location} is not Holdfast's: choose another prefix, as in ?prefix=holdfast-2/`,
    );
  if (meta.format > formatNow)
    throw new StoreError(
      "unsupported",
      `the data in ${location} has format ${meta.format}, and this Holdfast knows formats up to ${formatNow}: use a newer one`,
    );
  return meta as Meta;
}

/** The data's own word, made if there is none. Two that make it at once end up with the same. */
export async function foundMeta(cluster: Cluster, layout: Layout, location: string): Promise<MetaNow> {
  const status = await cluster.status();
  for (;;) {
    const { found, revision } = await cluster.look({ reads: [{ key: layout.meta }] });
    const there = found[0]?.[0];
    if (there !== undefined) return { meta: readMeta(there, location), revision: there.revision };
    const meta = freshMeta(status, revision);
    const made = await cluster.change({
      compare: [{ key: layout.meta, revision: 0 }],
      changes: new Map([
        [layout.meta, JSON.stringify(meta)],
        [layout.clock, String(Date.now())],
      ]),
      reads: [],
      otherwise: [],
    });
    if (made.succeeded) return { meta, revision: made.revision };
  }
}
