/** Opening data on etcd: who the cluster is, whose the data is, and what has to be said about both before it is used. */
import { refuseClosed } from "../../store/archive.js";
import type { Report } from "../../store/report.js";
import { SharedStore } from "../../store/shared-store.js";
import { StoreError } from "../../store/store.js";
import { Cluster } from "./cluster.js";
import { EtcdData } from "./data.js";
import { Layout } from "./layout.js";
import { adopt } from "./lineage.js";
import { foundMeta, isSameCluster, type MetaNow } from "./meta.js";
import { type EtcdPlace, readEtcdUrl } from "./url.js";
import { judgeVersion } from "./version.js";

export interface EtcdOptions {
  /** What works, but may not be what was meant. */
  readonly warn?: (what: string) => void;
  readonly report?: Report;
  readonly deadlineMs?: number;
}

/** `rest` is what stands behind `etcd:`. */
export async function openEtcd(rest: string, options: EtcdOptions = {}): Promise<SharedStore> {
  const data = await openEtcdData(readEtcdUrl(rest), options);
  const store = new SharedStore(data, options.report);
  try {
    await store.open();
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

export async function openEtcdData(place: EtcdPlace, options: EtcdOptions = {}): Promise<EtcdData> {
  const { warn = () => undefined, deadlineMs } = options;
  const { endpoints, user, prefix, opsMax } = place;
  const cluster = new Cluster({
    endpoints,
    user,
    opsMax,
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  });
  const layout = new Layout(prefix);
  try {
    const meta = await settleMeta(cluster, layout, place, warn);
    const data = new EtcdData(cluster, layout, meta, place);
    await data.start();
    return data;
  } catch (error) {
    cluster.close();
    throw error;
  }
}

/** Whose the data is, once that is certain: made if there is none, refused if it was moved, adopted if the cluster is another. */
export async function settleMeta(
  cluster: Cluster,
  layout: Layout,
  { location, opsMax }: EtcdPlace,
  warn: (what: string) => void,
): Promise<MetaNow> {
  const judged = judgeVersion((await cluster.status()).version);
  if (judged.verdict === "refuse") throw new StoreError("unsupported", judged.why);
  if (judged.verdict === "warn") warn(judged.why);
  for (;;) {
    const found = await foundMeta(cluster, layout, location);
    refuseClosed(location, found.meta.moved);
    if (isSameCluster(found, await cluster.status())) return found;
    warn(
      "the etcd cluster is not the one that the data was written in, or was restored from a snapshot: what was written after that is lost. Fencing tokens go on above all that can have been given",
    );
    const adopted = await adopt(cluster, layout, found, opsMax);
    if (adopted !== null) return adopted;
  }
}
