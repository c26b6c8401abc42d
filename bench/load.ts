// The load generator's process: takes orders over IPC, carries them out one after the other, answers each with a
// tally. It lives as long as the bench that started it.

import { drive } from "./drive.js";
import type { LoadReport, Order } from "./orders.js";
import { type Pools, workloadOf } from "./workload.js";

const pools: Pools = new Map();

process.on("message", async (order: Order) => {
  try {
    const count = order.count ?? Number.POSITIVE_INFINITY;
    report({ tally: await drive(order, workloadOf(order.work, order.port, count, pools)) });
  } catch (error) {
    report({ failure: String(error) });
  }
});
process.on("disconnect", () => process.exit(0));

function report(message: LoadReport): void {
  process.send?.(message);
}
