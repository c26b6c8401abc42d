/**
 * A git process that stands by and is asked one thing after the other: its start would cost more than its work. One that
 * ended, as git does after a refusal, is started anew at the next question.
 */
import type { ChildProcess } from "node:child_process";
import type { GitProgram } from "./git-program.js";

export type Say = (text: string) => void;
export type Line = () => Promise<string>;
export type Bytes = (count: number) => Promise<Buffer>;

/** The process ended instead of answering; what it said on the way out. */
export class Ended extends Error {
  override readonly name = "Ended";
}

export class Conversation {
  #last: Promise<unknown> = Promise.resolve();
  #process: Listener | null = null;
  #isClosed = false;

  constructor(
    readonly git: GitProgram,
    readonly args: readonly string[],
  ) {}

  /** One question with its answers; the next one comes after it. Throws `Ended` if the process went away meanwhile. */
  talk<Reply>(body: (say: Say, line: Line, bytes: Bytes) => Promise<Reply>): Promise<Reply> {
    const turn = this.#last.then(async () => {
      // Whoever comes late must not start a process that nobody ends.
      if (this.#isClosed) throw new Ended(`git ${this.args[0]} was ended`);
      if (this.#process === null || this.#process.isOver)
        this.#process = new Listener(this.git.start(this.args), this.args[0] ?? "");
      const listener = this.#process;
      const timer = setTimeout(() => listener.kill(), this.git.timeoutMs);
      try {
        return await body(
          (text) => listener.say(text),
          () => listener.line(),
          (count) => listener.bytes(count),
        );
      } finally {
        clearTimeout(timer);
      }
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#last;
    await this.#process?.close();
  }
}

/** What a process says, as lines and bytes to be awaited. */
class Listener {
  isOver = false;
  #heard: Buffer = Buffer.alloc(0);
  #errors = "";
  #wake: () => void = () => undefined;
  readonly #closed: Promise<void>;

  constructor(
    readonly child: ChildProcess,
    readonly what: string,
  ) {
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("data", (chunk: Buffer) => {
      this.#heard = this.#heard.length === 0 ? chunk : Buffer.concat([this.#heard, chunk]);
      this.#wake();
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#errors += chunk.toString("utf8");
    });
    this.#closed = new Promise((resolve) => {
      const over = (): void => {
        this.isOver = true;
        this.#wake();
        resolve();
      };
      child.once("close", over);
      child.once("error", (error) => {
        this.#errors += error.message;
        over();
      });
    });
    // A process that only stands by keeps nobody alive.
    this.#hold(false);
  }

  say(text: string): void {
    this.child.stdin?.write(text);
  }

  async line(): Promise<string> {
    for (;;) {
      const end = this.#heard.indexOf(10);
      if (end >= 0) return this.#take(end + 1).toString("utf8", 0, end);
      await this.#more();
    }
  }

  async bytes(count: number): Promise<Buffer> {
    while (this.#heard.length < count) await this.#more();
    return this.#take(count);
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#hold(true);
    this.child.stdin?.end();
    await this.#closed;
  }

  #take(count: number): Buffer {
    const taken = this.#heard.subarray(0, count);
    this.#heard = this.#heard.subarray(count);
    return taken;
  }

  async #more(): Promise<void> {
    if (this.isOver) throw new Ended(this.#errors.trim() || `git ${this.what} ended`);
    this.#hold(true);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#hold(false);
  }

  /** While an answer, or the end, is awaited, this process must not end for want of anything to do. */
  #hold(isAwaited: boolean): void {
    const { stdin, stdout, stderr } = this.child;
    for (const handle of [this.child, stdin, stdout, stderr] as (Handle | null)[])
      if (isAwaited) handle?.ref?.();
      else handle?.unref?.();
  }
}

/** What keeps a process alive, or not. */
interface Handle {
  ref?(): void;
  unref?(): void;
}
