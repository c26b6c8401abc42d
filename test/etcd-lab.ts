// Real etcd for tests: one or three members of a cluster on free loopback ports, with data in a temporary folder. They end with
// the test process, however that ends.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Cluster } from "../src/engines/etcd/cluster.js";
import type { Status } from "../src/engines/etcd/messages.js";

export interface LabOptions {
  readonly members?: 1 | 3;
  /** Further arguments of etcd. */
  readonly args?: readonly string[];
  /** Files of a server certificate: its clients then speak TLS. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca?: string };
  /** Where the data is, member by member, if not in a new folder. */
  readonly dataDirs?: readonly string[];
  /** Ports to use again. */
  readonly ports?: readonly (readonly [client: number, peer: number])[];
}

const startWithinMs = 30_000;
const running = new Set<ChildProcess>();
const folders = new Set<string>();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

export class Member {
  #child: ChildProcess | undefined;
  #log = "";

  constructor(
    readonly name: string,
    readonly port: number,
    readonly peerPort: number,
    readonly dataDir: string,
    readonly args: readonly string[],
  ) {}

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  get log(): string {
    return this.#log;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  start(): void {
    // The kernel ends it with us: a member must not outlive tests that were killed.
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "etcd", ...this.args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH ?? "/usr/bin" },
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (text) => {
        this.#log = (this.#log + text).slice(-20_000);
      });
    child.once("exit", () => running.delete(child));
    running.add(child);
    this.#child = child;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  /** What it says about itself. */
  async status(): Promise<Status> {
    const cluster = new Cluster({
      endpoints: [{ authority: this.endpoint, tls: null }],
      user: null,
      opsMax: 128,
      deadlineMs: 1_000,
    });
    try {
      return await cluster.status();
    } finally {
      cluster.close();
    }
  }
}

export class EtcdLab {
  constructor(
    readonly members: readonly Member[],
    readonly folder: string,
    readonly isTls: boolean,
  ) {}

  get endpoints(): string {
    return this.members.map(({ endpoint }) => endpoint).join(",");
  }

  /** A store of its own each time it is asked for without a name. */
  url(prefix = `t${Math.random().toString(36).slice(2)}/`): string {
    return `etcd://${this.endpoints}/?prefix=${prefix}`;
  }

  member(n: number): Member {
    const member = this.members[n];
    if (member === undefined) throw new Error(`no member ${n}`);
    return member;
  }

  async leader(): Promise<Member> {
    for (;;) {
      for (const member of this.members) {
        const status = await member.status().catch(() => undefined);
        if (status !== undefined && status.leader !== "0" && status.leader === status.member) return member;
      }
      await delay(50);
    }
  }

  /** etcdctl at the first member. */
  ctl(...args: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync("etcdctl", ["--endpoints", this.endpoints, ...args], {
      encoding: "utf8",
      env: { ...process.env, ETCDCTL_API: "3" },
    });
    if (status !== 0) throw new Error(`etcdctl ${args.join(" ")}: ${stderr}${stdout}`);
    return stdout;
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.kill()));
    folders.delete(this.folder);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Resolves when every member takes part. */
export async function startEtcd(options: LabOptions = {}): Promise<EtcdLab> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-etcd-"));
  folders.add(folder);
  const ports = options.ports ?? (await freePorts(options.members ?? 1));
  const cluster = ports.map(([, peer], i) => `m${i}=http://127.0.0.1:${peer}`).join(",");
  const members = ports.map(([port, peer], i) => {
    const dataDir = options.dataDirs?.[i] ?? join(folder, `m${i}`);
    return new Member(`m${i}`, port, peer, dataDir, argsOf(`m${i}`, port, peer, dataDir, cluster, options));
  });
  for (const member of members) member.start();
  const lab = new EtcdLab(members, folder, options.tls !== undefined);
  for (const member of members) await listening(member, options.tls !== undefined);
  return lab;
}

function argsOf(
  name: string,
  port: number,
  peer: number,
  dataDir: string,
  cluster: string,
  { tls, args = [] }: LabOptions,
): string[] {
  const client = `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const certificates =
    tls === undefined
      ? []
      : [
          ["--cert-file", tls.cert, "--key-file", tls.key],
          tls.ca === undefined ? [] : ["--client-cert-auth", "--trusted-ca-file", tls.ca],
        ].flat();
  return [
    ["--name", name, "--data-dir", dataDir],
    ["--listen-client-urls", client, "--advertise-client-urls", client],
    ["--listen-peer-urls", `http://127.0.0.1:${peer}`],
    ["--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`],
    ["--initial-cluster", cluster, "--logger", "zap", "--log-level", "warn"],
    certificates,
    args,
  ].flat();
}

/** Members with users or certificates are not asked who they are: that they take connections must do. */
async function listening(member: Member, isTls: boolean): Promise<void> {
  const until = performance.now() + startWithinMs;
  while (performance.now() < until) {
    const status = isTls ? undefined : await member.status().catch(() => undefined);
    if (status !== undefined && status.leader !== "0") return;
    if (isTls && (await takesConnections(member.port))) return;
    await delay(20);
  }
  throw new Error(`etcd ${member.name} did not start: ${member.log}`);
}

async function takesConnections(port: number): Promise<boolean> {
  const { connect } = await import("node:net");
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

export async function freePorts(count: number): Promise<[client: number, peer: number][]> {
  const servers = Array.from({ length: count * 2 }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return Array.from({ length: count }, (_, i) => [ports[i * 2] ?? 0, ports[i * 2 + 1] ?? 0]);
}
