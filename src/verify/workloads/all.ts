/** Every workload, in the order in which reports name them. */
import type { Workload } from "../lab.js";
import { counter } from "./counter.js";
import { graph } from "./graph.js";
import { mutex } from "./mutex.js";
import { overlap } from "./overlap.js";
import { queue } from "./queue.js";
import { retryStorm } from "./retry-storm.js";
import { sessions } from "./sessions.js";
import { tokens } from "./tokens.js";
import { watchReplay } from "./watch-replay.js";

export const workloads: readonly Workload[] = [
  mutex,
  retryStorm,
  queue,
  watchReplay,
  sessions,
  tokens,
  overlap,
  counter,
  graph,
];
