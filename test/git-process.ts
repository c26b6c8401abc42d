// Starts test/git-child.ts and talks with it.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import type { Answer, Order } from "./git-child.js";
import { gitEnv } from "./git-lab.js";

const childFile = fileURLToPath(new URL("./git-child.js", import.meta.url));

export class GitChild {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly ended: Promise<void>;
  #errors = "";

  private constructor(
    dir: string,
    authority: string,
    readonly principal: string,
    env: NodeJS.ProcessEnv,
  ) {
    this.#process = spawn(process.execPath, [childFile, dir, authority, principal], {
      env: { ...gitEnv, ...env },
    });
    children.add(this.#process);
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    this.#process.stdin.on("error", () => undefined); // it was killed
    this.#process.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    this.ended = new Promise((resolve) => {
      this.#process.once("close", () => {
        children.delete(this.#process);
        resolve();
      });
    });
  }

  static async start(
    dir: string,
    authority: string,
    principal: string,
    env: NodeJS.ProcessEnv = {},
  ): Promise<GitChild> {
    const child = new GitChild(dir, authority, principal, env);
    await child.line();
    return child;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  order(order: Order): void {
    this.#process.stdin.write(`${JSON.stringify(order)}\n`);
  }

  /** The next line that it says; null: it ended. */
  async next<Line>(): Promise<Line | null> {
    const { value, done } = await this.#lines.next();
    return done ? null : (JSON.parse(value) as Line);
  }

  async line<Line>(): Promise<Line> {
    const line = await this.next<Line>();
    if (line === null) throw new Error(`the child ended: ${this.#errors}`);
    return line;
  }

  ask(order: Order): Promise<Answer> {
    this.order(order);
    return this.line<Answer>();
  }

  /** kill -9; resolves when it is gone. */
  kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    return this.ended;
  }

  /** No more orders: it has nothing to do, and ends. */
  end(): Promise<void> {
    this.#process.stdin.end();
    return this.ended;
  }
}

const children = new Set<ChildProcessWithoutNullStreams>();
const killAll = (): void => {
  for (const child of children) child.kill("SIGKILL");
};
after(killAll);
process.once("exit", killAll);
