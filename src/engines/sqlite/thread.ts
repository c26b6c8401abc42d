/** A thread beside the main one: what is said to it, and its end, which may also come unasked. */
import { Worker } from "node:worker_threads";

export class Thread<To extends { readonly type: string }, From> {
  readonly #worker: Worker;
  readonly #ended: Promise<void>;
  #isClosing = false;

  /** `stopped` is told why the thread ended though nobody closed it: a bug, and whatever is said to it is lost from then on. */
  constructor(
    file: URL,
    workerData: unknown,
    heard: (message: From) => void,
    stopped: (why: string) => void,
  ) {
    let why = "nobody knows why";
    this.#worker = new Worker(file, { workerData });
    this.#worker.on("message", heard);
    this.#worker.on("error", (error: unknown) => {
      why = error instanceof Error ? error.message : String(error);
    });
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        if (!this.#isClosing) stopped(why);
        resolve();
      });
    });
  }

  say(message: To | { readonly type: "close" }): void {
    this.#worker.postMessage(message);
  }

  /** Lets the process end though the thread has not. */
  unref(): void {
    this.#worker.unref();
  }

  /** Resolves when the thread has ended, also if it did long ago. */
  async close(): Promise<void> {
    this.#isClosing = true;
    // The process must not end, with this promise unsettled, before the thread has.
    this.#worker.ref();
    // Never `terminate`: a thread that is stopped inside the library takes the whole process down.
    this.say({ type: "close" });
    await this.#ended;
  }
}
