/** `holdfast/verify`: run the workloads against a service, or judge a history of your own. */
export { check, type Verdict, type Violation } from "./check.js";
export { VerifyError } from "./error.js";
export type { Call, History, LeaseRef, Operation, Reply, Seen, Timely } from "./history.js";
export { HttpLab, type HttpLabOptions, type Principal } from "./http/lab.js";
export { type Load, Pace } from "./http/pace.js";
export type { Caller, Lab, Run, Tally, Workload } from "./lab.js";
export { durationMaxMs, durationMinMs, type Progress, type VerifyOptions } from "./options.js";
export { resultToHtml } from "./report/html.js";
export { resultFromJson, resultToJson } from "./report/json.js";
export {
  type Contacted,
  type Dismissed,
  type Latency,
  type LeftOut,
  type LossRate,
  type LossRates,
  lossRates,
  type Outcome,
  type Result,
  type TooLittle,
  type WorkloadResult,
} from "./result.js";
export { loadDefault, verify } from "./run.js";
export { workloads } from "./workloads/all.js";
