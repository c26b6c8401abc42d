// Real proxies for tests, from Debian's packages, with the configuration that deploy/ ships: only the addresses are other ones. They
// end with the test process, however that ends.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { call, freePort, temporaryDir } from "./server.js";

const deploy = fileURLToPath(new URL("../../deploy/", import.meta.url));
const readyWithinMs = 15_000;

export type ProxyName = "haproxy" | "nginx";

/** How each is told its configuration, asked whether it is one, and started in the foreground. */
const programs = {
  haproxy: { check: (file: string) => ["-c", "-f", file], run: (file: string) => ["-db", "-f", file] },
  nginx: { check: (file: string) => ["-t", "-c", file], run: (file: string) => ["-c", file] },
} as const;

export class RealProxy {
  #child: ChildProcess | undefined;
  #said = "";

  private constructor(
    readonly name: ProxyName,
    readonly port: number,
    readonly file: string,
  ) {}

  /** In front of servers at these ports; the first stands for node-1, the last one for all others. */
  static async start(name: ProxyName, ports: readonly number[]): Promise<RealProxy> {
    const port = await freePort();
    const folder = temporaryDir(`holdfast-${name}-`);
    const file = join(folder, "proxy.conf");
    const text = shipped(name)
      .replace(/node-(\d):4280/g, (_, n: string) => `127.0.0.1:${ports[Number(n) - 1] ?? ports.at(-1)}`)
      .replace(name === "haproxy" ? "bind :4280" : "listen 4280", (word) =>
        word.replace(/:?4280/, `127.0.0.1:${port}`),
      );
    writeFileSync(file, name === "haproxy" ? text : aroundSite(text, folder));
    const proxy = new RealProxy(name, port, file);
    proxy.#launch();
    await proxy.#ready();
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** What the program itself says of the configuration. */
  check(): { status: number | null; text: string } {
    const { status, stdout, stderr } = spawnSync(
      programPath(this.name),
      programs[this.name].check(this.file),
      {
        encoding: "utf8",
      },
    );
    return { status, text: stdout + stderr };
  }

  #launch(): void {
    const args = ["--pdeathsig", "KILL", programPath(this.name), ...programs[this.name].run(this.file)];
    this.#child = spawn("setpriv", args, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (text) => {
        this.#said += text;
      });
  }

  async #ready(): Promise<void> {
    for (const until = performance.now() + readyWithinMs; performance.now() < until; await delay(20)) {
      const answer = await call(this, "GET", "/ready").catch(() => undefined);
      if (answer?.status === 200) return;
      if (this.#child?.exitCode !== null) break;
    }
    throw new Error(`${this.name} did not start: ${this.#said}`);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }
}

/** Where Debian puts them: not on everybody's path. */
const programPath = (name: ProxyName): string => `/usr/sbin/${name}`;

const shipped = (name: ProxyName): string =>
  readFileSync(join(deploy, name === "haproxy" ? "haproxy.cfg" : "nginx.conf"), "utf8");

/** What /etc/nginx/nginx.conf is around a site; one process, so that nothing of it can be left behind. */
const aroundSite = (site: string, folder: string): string => `
daemon off;
master_process off;
pid ${folder}/pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
${site}
}
`;
