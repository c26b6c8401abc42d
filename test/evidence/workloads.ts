// The workloads of the evidence: those that anybody can run against a server, and one that needs what only the
// evidence has.
import type { Workload } from "../../src/verify/lab.js";
import { workloads } from "../../src/verify/workloads/all.js";
import { stoppedCounter } from "./stopped-counter.js";

/** By name. `registerUrl`: where the counters are that writers of several processes share. */
export const workloadsNamed = (names: readonly string[], registerUrl: string): Workload[] =>
  [...workloads, stoppedCounter(registerUrl)].filter(({ name }) => names.includes(name));

/** What runs under every fault that says nothing else. */
export const usual: readonly string[] = workloads.map(({ name }) => name);
