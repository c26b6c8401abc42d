// What the proofs about the work graph share: nodes on a server of their own with short claims, callers whose calls and
// replies are written down, and a reading of every node afterwards. The checker of `holdfast verify` is the judge.
import { check, type Violation } from "../../src/verify/check.js";
import type { Terms } from "../../src/verify/history.js";
import { HttpLab } from "../../src/verify/http/lab.js";
import { Pace } from "../../src/verify/http/pace.js";
import type { Caller } from "../../src/verify/lab.js";
import type { NodeCall, NodeEntry, NodeVerb } from "../../src/verify/node-calls.js";
import { askUntilKnown, crew } from "../../src/verify/workloads/crew.js";
import { ok } from "../http-api.js";
import type { Server } from "../server.js";
import { operator, principals } from "./principals.js";

/** One of the types that every server knows. */
const type = "task";
/** Readers and creators at once. */
const readers = 48;

export const asking = (verb: NodeVerb, more: Partial<NodeCall> = {}): NodeCall => ({
  op: "node",
  verb,
  node: null,
  type,
  run: null,
  token: null,
  requestId: null,
  waitMs: 0,
  ...more,
});

export class GraphLab {
  readonly lab: HttpLab;
  readonly ids: readonly string[];

  /** `nodes` of them are made by `create`. */
  constructor(
    readonly server: Pick<Server, "url" | "port">,
    seed: number,
    nodes: number,
  ) {
    this.lab = new HttpLab({
      url: server.url,
      principals,
      prefix: "",
      seed,
      over: new AbortController().signal,
      // Only the server itself is to hold them up.
      pace: new Pace({ callsPerSecond: 1_000_000, inFlightMax: 10_000 }),
    });
    this.ids = Array.from({ length: nodes }, (_, nth) => `n${String(nth).padStart(6, "0")}`);
  }

  caller = (process: string, who: number): Caller => this.lab.caller(process, who);

  /** Claims last this long; work that is lost often is not parked. */
  async setPolicy(claimTtlMs: number): Promise<void> {
    const body = { revision: 0, claim_ttl_ms: claimTtlMs, reclaims_max: 1000 };
    await ok(this.server, "setPolicy", { token: operator.bearer, body });
  }

  async create(): Promise<void> {
    await this.#each(async (caller, node) => {
      const { kind } = await askUntilKnown(this.lab, caller, asking("create", { node }));
      if (kind !== "done") throw new Error(`${node} was not created: ${kind}`);
    });
  }

  /** Every node's history and the node itself, by id. */
  async read(): Promise<Map<string, readonly NodeEntry[]>> {
    const histories = new Map<string, readonly NodeEntry[]>();
    await this.#each(async (caller, node) => {
      const told = await askUntilKnown(this.lab, caller, asking("history", { node }));
      if (told.kind !== "entries") throw new Error(`no history of ${node}: ${JSON.stringify(told)}`);
      histories.set(node, told.entries);
      await askUntilKnown(this.lab, caller, asking("look", { node }));
    });
    return histories;
  }

  /** What the whole history breaks, in words. */
  violations(terms: Terms = {}): string[] {
    const { violations } = check({ ...this.lab.history(), terms });
    return violations.map(({ invariant, name, says }: Violation) => `${invariant} ${name}: ${says}`);
  }

  close(): void {
    this.lab.close();
  }

  async #each(work: (caller: Caller, node: string) => Promise<void>): Promise<void> {
    let next = 0;
    await crew(readers, async (index) => {
      const caller = this.caller(`reader-${index}`, index);
      for (let node = this.ids[next++]; node !== undefined; node = this.ids[next++]) await work(caller, node);
    });
  }
}
