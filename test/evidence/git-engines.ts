// The git engine as the evidence runs it: two gateways on two clones of one remote, or on two worktrees of one clone. The
// remote is real: a bare repository that `git daemon` serves on this machine.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Terms } from "../../src/verify/history.js";
import { monotonicMs } from "../../src/verify/http/clock.js";
import { freePort, type Server, type ServerOptions, startServer, temporaryDir } from "../server.js";
import { until } from "../system-client.js";
import type { Engine } from "./engines.js";
import { noDatabase } from "./no-database.js";
import { tokens } from "./principals.js";
import { PushProxy } from "./push-proxy.js";

const gatewayFile = fileURLToPath(new URL("./git-gateway.js", import.meta.url));
/** Longer than anything takes that a gateway finishes before it ends. */
const stopWithinMs = 15_000;

const exec = promisify(execFile);
const runGit = async (cwd: string, ...args: string[]): Promise<void> => {
  const who = ["-c", "user.name=evidence", "-c", "user.email=evidence@example.invalid"];
  await exec("git", [...who, "-c", "init.defaultBranch=main", ...args], { cwd });
};

const gateway = async (dir: string, authority: string, options: ServerOptions): Promise<Server> =>
  alone(
    await startServer({
      tokens,
      program: [process.execPath, gatewayFile],
      args: [authority],
      dataDir: dir,
      ...options,
    }),
  );

/** Signals meet the gateway and not the git processes that it started: those go on, as they do when a command is killed. */
function alone(server: Server): Server {
  const kill = (signal: NodeJS.Signals): void => {
    try {
      process.kill(server.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  };
  return {
    ...server,
    kill,
    stop: async () => {
      kill("SIGTERM");
      await Promise.race([server.exited, delay(stopWithinMs, null, { ref: false })]);
      return server.stop();
    },
    restart: async (changes) => alone(await server.restart(changes)),
  };
}

interface Remote extends AsyncDisposable {
  readonly proxy: PushProxy;
  readonly url: string;
}

/** Serves every repository below the directory. */
async function serveRemote(root: string): Promise<Remote> {
  const port = await freePort();
  const at = ["--reuseaddr", "--listen=127.0.0.1", `--port=${port}`];
  const what = ["--export-all", "--enable=receive-pack", `--base-path=${root}`, root];
  const daemon = spawn("git", ["daemon", ...at, ...what], { stdio: "ignore", detached: true });
  const end = (): void => endGroup(daemon);
  process.once("exit", end);
  await until(() => isListening(port), "git daemon listens");
  const proxy = await PushProxy.start(port, monotonicMs);
  return {
    proxy,
    url: `git://127.0.0.1:${proxy.port}/remote.git`,
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]();
      const closed = once(daemon, "close");
      end();
      process.off("exit", end);
      await closed;
    },
  };
}

function endGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, "SIGKILL");
}

async function isListening(port: number): Promise<true | undefined> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}

/** By the directory of the first clone. */
const remotes = new Map<string, Remote>();

/** Ends with the first gateway, or with the one that took its place. */
function withRemote(server: Server): Server {
  return {
    ...server,
    restart: async (changes) => withRemote(await server.restart(changes)),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await remotes.get(server.dataDir)?.[Symbol.asyncDispose]();
      remotes.delete(server.dataDir);
    },
  };
}

function remoteOf({ dataDir }: Server): Remote {
  const remote = remotes.get(dataDir);
  if (remote === undefined) throw new Error(`no remote of ${dataDir}`);
  return remote;
}

async function clone(url: string): Promise<string> {
  const dir = temporaryDir("holdfast-clone-");
  await runGit(dir, "init", "--quiet");
  await runGit(dir, "remote", "add", "origin", url);
  return dir;
}

const terms: Terms = {
  margin: { minMs: 2000, share: 0.1 },
  lookEveryMs: 2000,
  repeatRenews: true,
  without: ["sessions", "force"],
};

const noCopies = async (): Promise<never> => {
  throw new Error("locks in a repository have no backup of their own");
};

const shared = {
  bounce: async (server: Server): Promise<Server> => {
    await server.stop();
    return server.restart();
  },
  backUp: noCopies,
  restore: noCopies,
  workloads: ["mutex", "retry-storm", "tokens", "overlap", "counter", "stopped-counter"],
  terms,
  /** A minute less than the skew that is allowed for by default. */
  wallClockMaxMs: 14 * 60_000,
} satisfies Partial<Engine>;

const inapplicable = {
  "disk-full": "fills the data directory of a server; a repository's disk is git's",
  fsync: "fails the syncs of a server's process; here git syncs, in processes that come and go",
  restore: "locks in a repository have no backup of their own",
  overload: "nobody is asked by others: each process works for itself",
  "graph-drain": "a repository keeps locks only",
  "graph-kill": "a repository keeps locks only",
  ...noDatabase,
};

export const git: Engine = {
  ...shared,
  name: "git",
  start: async (options) => {
    const root = temporaryDir("holdfast-remote-");
    await runGit(root, "init", "--quiet", "--bare", "remote.git");
    const remote = await serveRemote(root);
    const dir = await clone(remote.url);
    remotes.set(dir, remote);
    return withRemote(await gateway(dir, "origin", options));
  },
  more: [async (first, options) => gateway(await clone(remoteOf(first).url), "origin", options)],
  pushesOf: (first) => remoteOf(first).proxy,
  inapplicable,
  pace: { callsPerSecond: 100, inFlightMax: 4, crewShare: 0.4 },
  share: 0.15,
  stretch: 2,
};

export const gitLocal: Engine = {
  ...shared,
  name: "git-local",
  start: async (options) => {
    const dir = temporaryDir("holdfast-clone-");
    await runGit(dir, "init", "--quiet");
    await runGit(dir, "commit", "--quiet", "--allow-empty", "--message=first");
    return gateway(dir, "local", options);
  },
  more: [
    async ({ dataDir }, options) => {
      const dir = join(temporaryDir("holdfast-worktree-"), "tree");
      await runGit(dataDir, "worktree", "add", "--quiet", "--detach", dir);
      return gateway(dir, "local", options);
    },
  ],
  inapplicable: { ...inapplicable, "lost-push": "nothing is pushed: the clone itself decides" },
  pace: { callsPerSecond: 200, inFlightMax: 16, crewShare: 0.6 },
  share: 0.5,
  stretch: 1,
};
