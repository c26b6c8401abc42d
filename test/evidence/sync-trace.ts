// Reads a trace of a server's system calls and tells whether a reply left before the sync that covers its commit:
// what kill -9 can never show, because the kernel keeps what was written and not synced.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDir } from "../server.js";
import { until } from "../system-client.js";
import { syncCalls } from "../system-tracer.js";

/** Larger than a page of the file, so that none is shown in part. */
const bytesShown = 8192;

/** Traces a running server until `stop`, which returns the trace. */
export async function traceWrites(pid: number): Promise<{ stop(): Promise<string> }> {
  const file = join(temporaryDir("holdfast-trace-"), "trace");
  const calls = `${syncCalls},pwrite64,pwritev,write,writev,sendto,sendmsg`;
  const args = ["-f", "-yy", "-s", String(bytesShown), "-e", `trace=${calls}`, "-o", file, "-p", String(pid)];
  const strace = spawn("strace", args, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(strace, "exit");
  let said = "";
  strace.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  await until(() => {
    if (strace.exitCode !== null) throw new Error(`strace ended: ${said}`);
    return /attached/.test(said) ? true : undefined;
  }, "strace is attached");
  return {
    stop: async () => {
      strace.kill("SIGINT");
      await ended;
      return readFileSync(file, "utf8");
    },
  };
}

export interface Judged {
  /** Grants and releases that were answered. */
  readonly replies: number;
  /** Those whose first byte left before their commit was synced, in words. */
  readonly early: readonly string[];
}

interface Traced {
  readonly thread: string;
  readonly name: string;
  /** File or connection. */
  readonly target: string;
  /** As strace quotes it. */
  readonly data: string;
  /** Lines of the trace on which it began and ended. */
  readonly began: number;
  ended: number;
}

const isSync = ({ name }: Traced): boolean => name === "fsync" || name === "fdatasync";
const isReply = ({ target }: Traced): boolean => target.startsWith("TCP:");
const acquired = /\\"status\\":\\"acquired\\",\\"name\\":\\"([^\\]+)\\",\\"lease_id\\":\\"([^\\]+)\\"/;
const released = /\\r\\n\\r\\nnull"/;

/**
 * Of each connection the replies must be a grant of a new name and its release, in turn. A commit must be small
 * enough to lie in one page, where its names and lease ids can be found whole.
 */
export function judge(trace: string): Judged {
  const calls = read(trace);
  const held = new Map<string, { name: string; leaseId: string }>();
  const early: string[] = [];
  let replies = 0;
  const check = (reply: Traced, what: string, mark: string): void => {
    replies++;
    const write = calls.find((call) => call.target.endsWith("-wal") && call.data.includes(mark));
    if (write === undefined) return void early.push(`${what}: it was never written`);
    const sync = calls.find(
      (call) =>
        isSync(call) &&
        call.target === write.target &&
        call.thread === write.thread &&
        call.began > write.began,
    );
    if (sync === undefined) early.push(`${what}: written on line ${write.began}, never synced`);
    else if (sync.ended > reply.began)
      early.push(`${what}: the reply left on line ${reply.began}, the sync ended on line ${sync.ended}`);
  };
  for (const reply of calls.filter(isReply)) {
    const [, name, leaseId] = acquired.exec(reply.data) ?? [];
    const lease = held.get(reply.target);
    if (name !== undefined && leaseId !== undefined) {
      held.set(reply.target, { name, leaseId });
      check(reply, `the grant of ${name}`, name);
    } else if (released.test(reply.data) && lease !== undefined)
      check(reply, `the release of ${lease.name}`, `\\"leaseId\\":\\"${lease.leaseId}\\"`);
  }
  return { replies, early };
}

/** In the order in which they began. */
function read(trace: string): Traced[] {
  const calls: Traced[] = [];
  const open = new Map<string, Traced>();
  for (const [at, line] of trace.split("\n").entries()) {
    const [, thread = "", rest = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (rest.startsWith("<... ")) {
      const call = open.get(thread);
      if (call !== undefined) call.ended = at;
      continue;
    }
    const [, name = "", target = "", data = ""] = /^(\w+)\(\d+<(.*?)>(?=[,) ])(.*)/.exec(rest) ?? [];
    if (name === "") continue;
    const isOpen = rest.endsWith("<unfinished ...>");
    const call = { thread, name, target, data, began: at, ended: isOpen ? Number.POSITIVE_INFINITY : at };
    calls.push(call);
    if (isOpen) open.set(thread, call);
  }
  return calls;
}
