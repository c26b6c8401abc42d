/**
 * Who calls: the session that leases are kept for. The separate commands of one script are one session, two scripts
 * are two. By default it is the calling process; `--session` or HOLDFAST_SESSION names one that outlives a shell, and
 * in a CI it is the job that runs there.
 */
import { randomUUID } from "node:crypto";
import { CliError, exitCodes } from "../failure.js";
import type { Environment } from "../settings.js";
import { callerPid, isNobody } from "./caller.js";
import { markOf, markText, type ProcessMark } from "./process-mark.js";

export interface CallingSession {
  /** named: by flag or variable; ci: by a CI's own variables; process: by the process that calls. */
  readonly kind: "named" | "ci" | "process";
  /** The same for every command of the session, and for no other. */
  readonly key: string;
  /** For people. */
  readonly label: string;
  /** The process that called this command. */
  readonly caller: ProcessMark;
}

export interface SessionFlags {
  readonly session?: string;
}

export function callingSession(
  { session }: SessionFlags,
  env: Environment = process.env,
  pid: number = callerPid(env),
): CallingSession {
  const caller = markOf(pid);
  if (session === "")
    throw new CliError("--session must not be empty: give the run's own name", exitCodes.usage);
  const name = session ?? env["HOLDFAST_SESSION"];
  if (name) return { kind: "named", key: `named ${name}`, label: `session ${name}`, caller };
  const ci = ciJob(env);
  if (ci !== null) return { kind: "ci", key: `ci ${ci}`, label: `CI job ${ci}`, caller };
  if (isNobody(pid))
    // Many that know nothing of one another are started by it: each of their commands is a session of its own.
    return {
      kind: "process",
      key: `alone ${randomUUID()}`,
      label: `a command that process ${pid} started`,
      caller,
    };
  return {
    kind: "process",
    key: `process ${markText(caller)}`,
    label: `process ${pid}`,
    caller,
  };
}

/**
 * What tells one job of a CI from all others: the first variable must be set, the rest tell jobs of one run apart
 * that may share a machine, as those of a matrix.
 */
const ciVariables: readonly (readonly [string, ...string[]])[] = [
  ["GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_NAME"],
  ["CI_JOB_ID", "CI_SERVER_URL"],
  ["BUILDKITE_JOB_ID"],
  ["CIRCLE_WORKFLOW_JOB_ID", "CIRCLE_NODE_INDEX"],
  ["BITBUCKET_STEP_UUID", "BITBUCKET_BUILD_NUMBER", "BITBUCKET_PARALLEL_STEP"],
  ["TRAVIS_JOB_ID"],
  ["SYSTEM_JOBID", "BUILD_BUILDID", "SYSTEM_JOBATTEMPT", "AGENT_ID"],
  ["JOB_NAME", "BUILD_ID", "JENKINS_URL", "NODE_NAME", "EXECUTOR_NUMBER"],
];

/** Common words elsewhere: they mean a CI only together. */
const onlyTogether = ["JOB_NAME", "BUILD_ID", "JENKINS_URL"];

function ciJob(env: Environment): string | null {
  const found = ciVariables.find(
    ([first]) => env[first] && (first !== "JOB_NAME" || onlyTogether.every((name) => env[name])),
  );
  if (found === undefined) return null;
  return found
    .filter((name) => env[name])
    .map((name) => `${name}=${env[name]}`)
    .join(" ");
}
