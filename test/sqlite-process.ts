// Starts test/sqlite-child.ts and listens to it.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import type { SqliteOptions } from "../src/engines/sqlite/open.js";

const childFile = fileURLToPath(new URL("./sqlite-child.js", import.meta.url));

export class SqliteChild {
  readonly #process: ChildProcessWithoutNullStreams;
  /** Every line so far. */
  readonly lines: string[] = [];
  readonly ended: Promise<void>;
  #wake: (() => void)[] = [];
  #over = false;
  #rest = "";
  #errors = "";

  constructor(path: string, mode: readonly string[], options: Partial<SqliteOptions> = {}) {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => name !== "NODE_TEST_CONTEXT"),
    );
    this.#process = spawn(process.execPath, [childFile, path, JSON.stringify(options), ...mode], { env });
    children.add(this.#process);
    this.#process.stdout.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    this.#process.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    this.ended = new Promise((resolve) => {
      this.#process.once("close", () => {
        children.delete(this.#process);
        this.#over = true;
        this.#ring();
        resolve();
      });
    });
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get errors(): string {
    return this.#errors;
  }

  #hear(text: string): void {
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop() ?? "";
    this.lines.push(...parts);
    this.#ring();
  }

  #ring(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Resolves when it has said that many lines; fails if it ends before. */
  async said(count: number): Promise<void> {
    while (this.lines.length < count) {
      if (this.#over) throw new Error(`the child ended after ${this.lines.length} lines: ${this.#errors}`);
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  /** Sends a line and returns the one that answers it. */
  async ask(order: string): Promise<unknown> {
    const at = this.lines.length;
    this.#process.stdin.write(`${order}\n`);
    await this.said(at + 1);
    return JSON.parse(this.lines[at] ?? "null");
  }

  /** kill -9; resolves when all that it had said is here. */
  kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    return this.ended;
  }
}

const children = new Set<ChildProcessWithoutNullStreams>();
const killAll = (): void => {
  for (const child of children) child.kill("SIGKILL");
};
after(killAll);
process.once("exit", killAll);
