// Real PostgreSQL servers for tests: from Debian's package, on a free loopback port, with data and socket in a temporary folder,
// as a user without privileges where the tests run as root (it refuses root). None outlives its test process. Users other than
// the superuser have the rights of an ordinary owner of a database.
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chownSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import type { SmallDisk } from "./postgres-disk.js";
import { freePort } from "./server.js";

const readyWithinMs = 60_000;
export const password = "a-secret-of-tests";

export interface PostgresSettings {
  /** Lines of postgresql.conf, over the usual ones. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Of the server's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** On a file system of its own, of so many bytes, that a test can fill. */
  readonly disk?: SmallDisk;
  /** A standby that follows this one. */
  readonly follows?: Postgres;
  /** Where it finds that one, if not at its own port. */
  readonly followsAt?: number;
}

/** Where Debian puts the programs of the newest version that is installed. */
export function postgresBin(): string {
  const base = "/usr/lib/postgresql";
  const [newest] = readdirSync(base).sort((a, b) => Number(b) - Number(a));
  return join(base, newest ?? "", "bin");
}

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;

/** The program as a user that a database server accepts; it ends when this process does. */
export function unprivileged(command: string, args: readonly string[]): [string, string[]] {
  const user = isRoot ? ["--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];
  return ["setpriv", [...user, "--pdeathsig", "QUIT", command, ...args]];
}

/** A folder of that user's, removed when the process ends. */
export function ownFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${name}-`));
  giveAway(folder);
  if (folders.size === 0) process.once("exit", removeFolders);
  folders.add(folder);
  return folder;
}

const folders = new Set<string>();

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

export function giveAway(path: string): void {
  if (!isRoot) return;
  const id = (flag: string): number => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  chownSync(path, id("-u"), id("-g"));
}

const within = (disk: SmallDisk | undefined, command: [string, string[]]): [string, string[]] =>
  disk === undefined ? command : disk.within(command);

export class Postgres {
  #child: ChildProcess | null = null;
  #databases = 0;

  private constructor(
    readonly dir: string,
    readonly port: number,
    readonly env: Readonly<Record<string, string>>,
    readonly disk: SmallDisk | undefined,
  ) {}

  static async start(options: PostgresSettings = {}): Promise<Postgres> {
    const { disk } = options;
    const dir = disk?.folder ?? ownFolder("postgres");
    const seen = disk?.seenAs(dir) ?? dir;
    const data = join(dir, "data");
    const port = await freePort();
    const bin = postgresBin();
    const { follows } = options;
    if (follows === undefined) {
      const made = unprivileged(join(bin, "initdb"), [
        "-D",
        data,
        "-N",
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
      ]);
      await run(...within(disk, made), { env: { ...process.env, LC_ALL: "C.UTF-8" } });
    } else {
      const from = `host=127.0.0.1 port=${options.followsAt ?? follows.port} user=postgres application_name=standby`;
      const copied = unprivileged(join(bin, "pg_basebackup"), [
        "-D",
        data,
        "-d",
        from,
        "-R",
        "-X",
        "stream",
        "-c",
        "fast",
      ]);
      // Not in one go: it may reach the other through this very process.
      await run(...copied);
    }
    const settings = {
      listen_addresses: "127.0.0.1",
      port,
      unix_socket_directories: dir,
      shared_buffers: "32MB",
      max_wal_size: "256MB",
      max_connections: 120,
      ...options.settings,
    };
    if (follows === undefined) {
      const file = join(seen, "data", "pg_hba.conf");
      const rules =
        "host all postgres 127.0.0.1/32 trust\nhost replication postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\nlocal all holdfast scram-sha-256\n";
      writeFileSync(file, rules);
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
    appendFileSync(join(seen, "data", "postgresql.conf"), lines.join(""));
    const server = new Postgres(dir, port, options.env ?? {}, disk);
    await server.launch();
    if (follows === undefined) await server.sql(`CREATE ROLE holdfast LOGIN PASSWORD '${password}'`);
    return server;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child === null || this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get log(): string {
    return readFileSync(join(this.dir, "log"), "utf8");
  }

  /** Starts it, or starts it again; resolves when it takes connections. */
  async launch(): Promise<void> {
    const log = openSync(join(this.dir, "log"), "a");
    // Set only once it is that user: what a library leaves behind must be that user's, too.
    const settings = Object.entries(this.env).map(([name, value]) => `${name}=${value}`);
    const program = [join(postgresBin(), "postgres"), "-D", join(this.dir, "data")];
    const [command, args] = within(this.disk, unprivileged("env", [...settings, ...program]));
    this.#child = spawn(command, args, { stdio: ["ignore", log, log] });
    closeSync(log);
    for (const until = performance.now() + readyWithinMs; ; await delay(20)) {
      if (this.#child.exitCode !== null || performance.now() > until)
        throw new Error(`the database did not start:\n${this.log.slice(-2000)}`);
      if (
        await this.sql("SELECT 1").then(
          () => true,
          () => false,
        )
      )
        return;
    }
  }

  /** SIGINT cuts connections and stops in order; SIGQUIT is as good as a crash. */
  async stop(signal: "SIGINT" | "SIGQUIT" = "SIGQUIT"): Promise<void> {
    const child = this.#child;
    if (child === null || this.hasEnded) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
  }

  async restart(): Promise<void> {
    await this.stop("SIGQUIT");
    await this.launch();
  }

  /** A signal to the server and all of its processes; returns which. */
  signalAll(signal: NodeJS.Signals): number[] {
    const all = execFileSync("ps", ["-o", "pid=", "--ppid", String(this.pid)], { encoding: "utf8" });
    const pids = [this.pid, ...all.trim().split(/\s+/).map(Number)];
    this.signalThese(pids, signal);
    return pids;
  }

  signalThese(pids: readonly number[], signal: NodeJS.Signals): void {
    for (const pid of pids)
      try {
        process.kill(pid, signal);
      } catch {
        // It has ended since.
      }
  }

  /** One statement as superuser. */
  async sql(text: string, values: unknown[] = [], database = "postgres"): Promise<Record<string, unknown>[]> {
    const client = new Client({
      host: "127.0.0.1",
      port: this.port,
      user: "postgres",
      database,
      connectionTimeoutMillis: 5000,
    });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** A database of its own, as a store's URL. */
  async database(): Promise<string> {
    const name = `test_${++this.#databases}`;
    await this.sql(`CREATE DATABASE ${name} OWNER holdfast`);
    return this.url(name);
  }

  url(database: string, port = this.port): string {
    return `postgres://holdfast:${password}@127.0.0.1:${port}/${database}`;
  }
}
