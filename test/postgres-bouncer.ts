// A real PgBouncer in transaction mode in front of a test's PostgreSQL: each transaction may get another connection of few.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { ownFolder, type Postgres, password, unprivileged } from "./postgres-lab.js";
import { freePort } from "./server.js";

export class Bouncer {
  private constructor(
    readonly port: number,
    readonly child: ChildProcess,
  ) {}

  static async start(server: Postgres): Promise<Bouncer> {
    const folder = ownFolder("pgbouncer");
    const port = await freePort();
    const settings = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      auth_type: "plain",
      auth_file: join(folder, "users"),
      pool_mode: "transaction",
      default_pool_size: 4,
      max_client_conn: 200,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    const file = join(folder, "pgbouncer.ini");
    writeFileSync(join(folder, "users"), `"holdfast" "${password}"\n`);
    writeFileSync(
      file,
      `[databases]\n* = host=127.0.0.1 port=${server.port}\n[pgbouncer]\n${lines.join("\n")}\n`,
    );
    const program =
      ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].find((path) => existsSync(path)) ?? "pgbouncer";
    const child = spawn(...unprivileged(program, ["-q", file]), { stdio: "ignore" });
    const bouncer = new Bouncer(port, child);
    for (const until = performance.now() + 10_000; !(await bouncer.#answers()); await delay(20))
      if (child.exitCode !== null || performance.now() > until) throw new Error("pgbouncer did not start");
    return bouncer;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const gone = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await gone;
  }

  async #answers(): Promise<boolean> {
    const client = new Client({
      host: "127.0.0.1",
      port: this.port,
      user: "holdfast",
      password,
      database: "postgres",
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.query("SELECT 1");
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}
