/**
 * How servers on one database tell each other of new events, soon and cheaply. Whoever committed some says so at most every few
 * milliseconds, in a statement of its own: a NOTIFY within a commit would hold up all commits of the database. Whoever cannot be
 * told, because a pooler is in between, looks often; everybody looks now and then, since a NOTIFY is lost with its connection.
 */
import { randomBytes } from "node:crypto";
import type { ClientConfig } from "pg";
import { Connection } from "./connection.js";
import type { Pool } from "./pool.js";

/** Between two calls of one server, in ms. */
const callMs = 25;
/** How often to look where nobody calls, and where somebody does, in ms. */
const pollMs = 200;
const lookMs = 1000;
/** How long the first call to oneself may take, in ms. */
const trialMs = 2000;
/** Pause before another attempt to listen, in ms. */
const retryMs = 1000;

export class FeedBell {
  #ring: () => void = () => undefined;
  #connection: Connection | null = null;
  #look: NodeJS.Timeout | undefined;
  #call: NodeJS.Timeout | undefined;
  #calledAt = 0;
  #isClosed = false;
  readonly #counts = { calls: 0, listens: 0 };

  constructor(
    readonly pool: Pool,
    readonly channel: string,
    /** Where to listen; null: where everything else goes, if that works. */
    readonly direct: ClientConfig | null,
  ) {}

  start(ring: () => void): void {
    this.#ring = ring;
    this.#lookAgain();
    void this.#listen();
  }

  /** Others should look. */
  call(): void {
    if (this.#call !== undefined || this.#isClosed) return;
    const wait = Math.max(0, this.#calledAt + callMs - performance.now());
    this.#call = setTimeout(() => {
      this.#call = undefined;
      this.#calledAt = performance.now();
      this.#counts.calls++;
      // Lost, it costs others at most their next look.
      this.#notify("").catch(() => undefined);
    }, wait);
  }

  get counts(): Readonly<Record<string, number>> {
    return {
      listening: this.#connection === null ? 0 : 1,
      listens_total: this.#counts.listens,
      notifies_total: this.#counts.calls,
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#look);
    clearTimeout(this.#call);
    await this.#connection?.close();
  }

  #lookAgain(): void {
    if (this.#isClosed) return;
    this.#look = setTimeout(
      () => {
        this.#ring();
        this.#lookAgain();
      },
      this.#connection === null ? pollMs : lookMs,
    );
    this.#look.unref();
  }

  /** Need not be durable: a transaction of its own that nobody waits for. */
  async #notify(text: string): Promise<void> {
    await this.pool.query("SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [
      this.channel,
      text,
    ]);
  }

  /** As long as the store is open, unless it turns out that nothing is heard there. */
  async #listen(): Promise<void> {
    while (!this.#isClosed) {
      const end = await this.#listenOnce().catch(() => "lost" as const);
      this.#connection = null;
      if (end === "deaf") return;
      await new Promise<void>((resolve) => setTimeout(resolve, retryMs).unref());
    }
  }

  async #listenOnce(): Promise<"lost" | "deaf"> {
    const connection = await Connection.open(this.direct ?? this.pool.config, this.pool.deadlineMs);
    try {
      if (this.direct === null && (await this.#isPooled(connection))) return "deaf";
      const trial = randomBytes(6).toString("hex");
      const heard = new Promise<boolean>((resolve) => {
        setTimeout(() => resolve(false), trialMs).unref();
        connection.onNotification(({ payload }) => {
          if (payload === trial) resolve(true);
          this.#ring();
        });
      });
      await connection.query(`LISTEN "${this.channel}"`, [], this.pool.deadlineMs);
      await this.#notify(trial);
      if (!(await heard)) return connection.isOpen && this.direct === null ? "deaf" : "lost";
      if (this.#isClosed) return "lost";
      this.#counts.listens++;
      this.#connection = connection;
      // What was said before is not heard.
      this.#ring();
      await connection.ended;
      return "lost";
    } finally {
      await connection.close();
    }
  }

  /** A pooler tells another process than the one that answers, and would leave the LISTEN with whoever comes next. */
  async #isPooled(connection: Connection): Promise<boolean> {
    const [[pid] = []] = await connection.query("SELECT pg_backend_pid()", [], this.pool.deadlineMs);
    return Number(pid) !== connection.processId;
  }
}
