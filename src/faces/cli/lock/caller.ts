/**
 * Who called this command. Programs that run one command for somebody else and end with it, as `timeout` or `npx`, are
 * not meant: a lock that was taken through one belongs to the script that called it, and is not left behind when it ends.
 * Where the system does not show its processes, whoever started this one is the caller.
 */
import { basename } from "node:path";
import { showsProcesses, statOf, wordsOf } from "../process-stat.js";

/** Some of them take the command's place themselves, or do so only at times. */
const wrappers = new Set([
  ...["timeout", "gtimeout", "nohup", "setsid", "env", "xargs", "time", "flock", "nice", "ionice", "chrt"],
  ...["taskset", "stdbuf", "setpriv", "strace", "sudo", "doas", "su", "runuser", "pkexec"],
]);

/** One within the other; nobody writes more. */
const wrappersMax = 16;

export function callerPid(
  env: Readonly<Record<string, string | undefined>> = process.env,
  parent: number = process.ppid,
): number {
  if (!showsProcesses) return parent;
  const { npm_command: command, npm_lifecycle_event: event } = env;
  const isByNpx = command === "exec" && event === "npx";
  let pid = parent;
  for (let at = 0; at < wrappersMax; at++) {
    const outer = isWrapper(pid) ? parentOf(pid) : isByNpx ? callerOfNpx(pid) : null;
    if (outer === null) return pid;
    pid = outer;
  }
  return pid;
}

/** By the name it was started with: a script that has the same name is called as an argument of its shell. */
function isWrapper(pid: number): boolean {
  const [first = "", second = ""] = wordsOf(pid);
  const name = basename(first);
  return wrappers.has(name === "busybox" ? second : name);
}

/** `npx` starts a shell for its one command, unless the shell has become the command. */
function callerOfNpx(pid: number): number | null {
  const between = wordsOf(pid)[1] === "-c" ? parentOf(pid) : pid;
  return between !== null && wordsOf(between)[0]?.startsWith("npm exec ") ? parentOf(between) : null;
}

const parentOf = (pid: number): number | null => statOf(pid)?.parent ?? null;

/** What starts processes for others, or takes in those whose parents have ended. */
const starters = /^(?:systemd|init|launchd|tini|docker-init|dumb-init|catatonit)$/;

/** No script, but whoever starts processes for others: from outside a container (`docker exec`), or a service manager. */
export function isNobody(pid: number): boolean {
  if (pid === 0) return true;
  const name = basename(wordsOf(pid)[0] ?? "");
  // A user's own service manager has another number than 1.
  return (pid === 1 || name === "systemd") && starters.test(name);
}
