// The program that calls the server: runs workloads side by side in a process of its own, which can be stopped like
// any client, and leaves their histories in a file.
import type { Terms } from "../../src/verify/history.js";
import { HttpLab, type Principal } from "../../src/verify/http/lab.js";
import { type Load, Pace } from "../../src/verify/http/pace.js";
import type { Run, Workload } from "../../src/verify/lab.js";
import { seedFor } from "../../src/verify/seed.js";
import { saveRuns } from "./history-file.js";
import { workloadsNamed } from "./workloads.js";

export interface LoadJob {
  readonly url: string;
  readonly principals: readonly Principal[];
  readonly operator: Principal;
  readonly seed: number;
  /** When it ends though nobody told it to, by SIGTERM. */
  readonly durationMaxMs: number;
  /** By name. */
  readonly workloads: readonly string[];
  /** What all names begin with. */
  readonly prefix: string;
  readonly registerUrl: string;
  readonly terms?: Terms | undefined;
  /** Of all workloads together; undefined: each as it likes. */
  readonly pace?: (Load & { readonly crewShare: number }) | undefined;
  /** Where the histories go. */
  readonly file: string;
}

async function run(
  workload: Workload,
  job: LoadJob,
  pace: Pace | undefined,
  over: AbortSignal,
): Promise<Run> {
  const { url, principals, operator, terms } = job;
  const lab = new HttpLab({
    url,
    principals,
    operator,
    prefix: `${job.prefix}${workload.name}-`,
    seed: seedFor(job.seed, workload.name),
    over,
    isAlone: true,
    terms,
    crewShare: job.pace?.crewShare,
    ...(pace === undefined ? {} : { pace }),
  });
  try {
    const tally = await workload.run(lab);
    await lab.letGo();
    return { workload: workload.name, history: lab.history(), tally };
  } finally {
    lab.close();
  }
}

const job = JSON.parse(process.argv[2] ?? "") as LoadJob;
const over = new AbortController();
const cap = setTimeout(() => over.abort(), job.durationMaxMs);
process.once("SIGTERM", () => over.abort());
const chosen = workloadsNamed(job.workloads, job.registerUrl);
const pace = job.pace && new Pace(job.pace);
const running = Promise.all(chosen.map((workload) => run(workload, job, pace, over.signal)));
process.send?.("running", () => process.disconnect());
saveRuns(job.file, await running);
clearTimeout(cap);
