// The bench's end of the load generator: starts it, hands it orders, returns tallies.

import type { ChildProcess } from "node:child_process";
import { forkModule, gone } from "./children.js";
import type { LoadReport, Order, Tally, Work } from "./orders.js";

export class LoadProcess {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = forkModule("load.js", [], { execArgv: ["--max-old-space-size=4096"] });
  }

  /** Carries out one order. One at a time: the next may be given when this one's tally is there. */
  run(port: number, work: Work, extent: Partial<Order>): Promise<Tally> {
    const limitSeconds = (extent.seconds ?? 60) + 60;
    const order: Order = { connections: 64, limitSeconds, ...extent, port, work };
    return new Promise((resolve, reject) => {
      const onExit = () => reject(new Error("the load process ended"));
      this.#child.once("exit", onExit);
      this.#child.once("message", (report: LoadReport) => {
        this.#child.off("exit", onExit);
        if (report.tally === undefined) reject(new Error(`load: ${report.failure}`));
        else resolve(report.tally);
      });
      this.#child.send(order);
    });
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await gone(this.#child);
  }
}
