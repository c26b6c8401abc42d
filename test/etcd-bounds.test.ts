// Steps over many records on a real etcd, which takes 128 operations in one transaction, or as few as it was told.
import { after } from "node:test";
import { openStore } from "../src/engines/open.js";
import { boundedSteps } from "./bounded-steps.js";
import { startEtcd } from "./etcd-lab.js";

const [lab, small] = [await startEtcd(), await startEtcd({ args: ["--max-txn-ops", "64"] })];
after(async () => {
  await lab.stop();
  await small.stop();
});

boundedSteps("etcd", () => openStore(lab.url()));
boundedSteps("etcd with --max-txn-ops 64", () => openStore(`${small.url()}&max_txn_ops=64`));
