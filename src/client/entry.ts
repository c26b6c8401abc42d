/** `holdfast/client`. */
export { Client, type ClientOptions, createClient, type HoldOptions } from "./client.js";
export type { Duration } from "./durations.js";
export {
  type ErrorCode,
  type HeldBy,
  HeldError,
  HoldfastError,
  LeaseLostError,
  type NowHeldBy,
} from "./errors.js";
export type { ClaimOptions, HeartbeatOptions, Jobs, ListJobsQuery, ReleaseJobOptions } from "./jobs.js";
export type { Lease } from "./lease.js";
export type { AcquireOptions, CallSignal, ListQuery, Locks, RenewOptions, Waiting } from "./locks.js";
export type { Nodes } from "./nodes.js";
export type { NextOptions, NextReply, WaitingForWork } from "./nodes-next.js";
export type {
  ClaimManyOptions,
  ClaimNodeOptions,
  HistoryQuery,
  ListNodesQuery,
  ManyOptions,
  NewNode,
  NodeCallOptions,
  NodeChanges,
  NodeRef,
  PolicyValues,
  QueueQuery,
  StatusOptions,
} from "./nodes-options.js";
export type * from "./nodes-replies.js";
export type { NodeClaim, Worked, WorkOptions, WorkTask } from "./nodes-work.js";
export type * from "./replies.js";
export type { SessionOptions, Sessions } from "./sessions.js";
export type { WatchOptions } from "./watch.js";
