/** `holdfast/client`. */
export { Client, type ClientOptions, createClient, type HoldOptions } from "./client.js";
export type { Duration } from "./durations.js";
export { type ErrorCode, type HeldBy, HeldError, HoldfastError, LeaseLostError } from "./errors.js";
export type { ClaimOptions, Jobs, ListJobsQuery } from "./jobs.js";
export type { Lease } from "./lease.js";
export type { AcquireOptions, ListQuery, Locks, Waiting } from "./locks.js";
export type * from "./replies.js";
export type { Sessions } from "./sessions.js";
export type { WatchOptions } from "./watch.js";
